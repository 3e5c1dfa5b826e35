/* Clients and servers. */
#define _GNU_SOURCE /* setresuid */
#include "suite.h"

#include <unistd.h>

static void a_client_of_nowhere_is_refused(world *w)
{
	kurma_client *client = NULL;
	kurma_options options;
	kurma_options_init(&options, sizeof options);
	CHECK(options.size == sizeof options && options.uid == geteuid() && options.gid == getegid());
	if (w->is_nfs) {
		FAILS(EINVAL, KURMA_NO_INDEX, kurma_connect(text("nfs://%s/home", w->place), &options, &client));
		FAILS(EINVAL, KURMA_NO_INDEX, kurma_connect("nfs://", NULL, &client));
		FAILS(EINVAL, KURMA_NO_INDEX, kurma_connect(NULL, NULL, &client));
		FAILS(EINVAL, KURMA_NO_INDEX, kurma_connect(w->place, &options, NULL));
		options.minor_version = 3;
		FAILS(EINVAL, KURMA_NO_INDEX, kurma_connect(w->place, &options, &client));
		options.minor_version = 0;
		options.tls_key = "/key";
		FAILS(EINVAL, KURMA_NO_INDEX, kurma_connect(w->place, &options, &client));
		options.tls_key = NULL;
		options.size = 0;
		FAILS(EINVAL, KURMA_NO_INDEX, kurma_connect(w->place, &options, &client));
		/* Nobody listens there. */
		FAILS(EIO, KURMA_NO_INDEX, kurma_connect("127.0.0.1:1", NULL, &client));
		CHECK(client == NULL);
		kurma_options_init(&options, sizeof options);
		options.minor_version = 1;
		options.connections = 3;
		options.no_extensions = 1;
		OK(kurma_connect(w->place, &options, &client));
		kurma_limits limits;
		OK(kurma_transaction_limits(client, &limits));
		CHECK(limits.operations == 0);
		kurma_attributes stat;
		OK(kurma_stat(client, "/home", &stat));
		OK(kurma_close(client));
	} else {
		FAILS(ENOENT, KURMA_NO_INDEX, kurma_local(text("%s/none", w->place), &client));
		FAILS(EINVAL, KURMA_NO_INDEX, kurma_local(NULL, &client));
		FAILS(EINVAL, KURMA_NO_INDEX, kurma_local(w->place, NULL));
		make(w, "/home/file", "x");
		FAILS(ENOTDIR, KURMA_NO_INDEX, kurma_local(text("%s/home/file", w->place), &client));
		CHECK(client == NULL);
	}
	OK(kurma_close(NULL));
	FAILS(EINVAL, KURMA_NO_INDEX, kurma_get_statistics(w->client, NULL));
}

static kurma_result read_one(kurma_client *c, const char *path)
{
	kurma_read_arg read = reading(path, 0, 9);
	return kurma_vread(c, &read, 1);
}

static kurma_result write_one(kurma_client *c, const char *path, uint32_t mode)
{
	kurma_write_arg write = whole(path, mode, "own");
	if (mode == 0)
		write.flags = 0;
	return kurma_vwrite(c, &write, 1);
}

static kurma_result set_one(kurma_client *c, const char *path, kurma_new_attributes attributes)
{
	kurma_setattr_arg set = { .file = { .path = path }, .attributes = attributes };
	return kurma_vsetattrs(c, &set, 1);
}

static kurma_result remove_one(kurma_client *c, const char *path)
{
	kurma_file file = { .path = path };
	return kurma_vremove(c, &file, 1);
}

/* What a user may do and what not. */
static void attempt(kurma_client *user)
{
	const kurma_new_attributes given = { .set = KURMA_OWNER }, modified = { .set = KURMA_MODIFIED, .modified = { .seconds = 7 } },
				   touched = { .now = KURMA_ACCESSED | KURMA_MODIFIED }, empty = { .set = KURMA_SIZE };
	OK(write_one(user, "/home/open/own", 0400));
	OK(read_one(user, "/home/open/own"));
	FAILS(EACCES, 0, write_one(user, "/home/open/own", 0));
	OK(kurma_chmod(user, "/home/open/own", 0640));
	OK(set_one(user, "/home/open/own", modified));
	FAILS(EPERM, 0, set_one(user, "/home/open/own", given));
	OK(read_one(user, "/home/others/known"));
	FAILS(EACCES, 0, read_one(user, "/home/others/secret"));
	FAILS(EACCES, 0, write_one(user, "/home/others/known", 0));
	FAILS(EACCES, 0, write_one(user, "/home/others/new", 0600));
	FAILS(EACCES, 0, kurma_mkdir(user, "/home/others/new", 0755));
	FAILS(EACCES, 0, remove_one(user, "/home/others/known"));
	FAILS(EPERM, 0, remove_one(user, "/home/open/other"));
	FAILS(EACCES, 0, kurma_rename(user, "/home/open/own", "/home/others/own"));
	FAILS(EPERM, 0, kurma_chmod(user, "/home/others/known", 0666));
	FAILS(EACCES, 0, set_one(user, "/home/others/known", empty));
	FAILS(EPERM, 0, set_one(user, "/home/others/known", modified));
	FAILS(EACCES, 0, set_one(user, "/home/others/known", touched));
	FAILS(EACCES, 0, read_one(user, "/home/closed/file"));
	OK(remove_one(user, "/home/open/own"));
}

static void what_is_forbidden_is_refused(world *w)
{
	if (w->user != 0)
		return; /* nobody else can make what is not his */
	make_directory(w, "/home/others");
	OK(kurma_mkdir(w->client, "/home/open", 01777));
	OK(kurma_mkdir(w->client, "/home/closed", 0700));
	make(w, "/home/others/known", "text");
	make(w, "/home/open/other", "text");
	OK(kurma_write_file(w->client, "/home/others/secret", "text", 4, 0600));
	OK(kurma_write_file(w->client, "/home/closed/file", "text", 4, 0666));
	kurma_client *root = w->client, *user = NULL;
	if (w->is_nfs) {
		const uint32_t groups[] = { 1002, 1003 };
		kurma_options options;
		kurma_options_init(&options, sizeof options);
		options.uid = 1000;
		options.gid = 1001;
		options.groups = groups;
		options.group_count = 2;
		OK(kurma_connect(w->place, &options, &user));
		make(w, "/home/of-group", "text");
		OK(kurma_chown(root, "/home/of-group", UINT32_MAX, 1003));
		OK(kurma_chmod(root, "/home/of-group", 0640));
		world as_user = { .client = user };
		CHECK(has(&as_user, "/home/of-group", "text"));
	} else {
		CHECK(setresgid(1001, 1001, 1001) == 0 && setresuid(1000, 1000, 1000) == 0);
		OK(kurma_local(w->place, &user));
	}
	attempt(user);
	kurma_read_arg reads[] = { reading("/home/others/known", 0, 9), reading("/home/others/known", 1, 9) };
	kurma_write_arg write = { .file = reads[0].file, .data = "x", .length = 1 };
	kurma_steps *steps;
	/* One open is enough for both if there is the right to both. */
	OK(kurma_steps_new(&steps));
	OK(kurma_steps_read(steps, reads, 2));
	OK(kurma_steps_write(steps, &write, 1));
	FAILS(EACCES, 2, kurma_execute(user, steps));
	kurma_steps_free(steps);
	CHECK(is(&reads[0], "text") && is(&reads[1], "ext"));
	kurma_file closed = AT("/home/closed");
	int entries = 0;
	FAILS(EACCES, 0, kurma_vlistdir(user, &closed, 1, KURMA_KIND, 0, count_entries, &entries));
	write = whole("/home/mine", 0600, "x");
	OK(kurma_vwrite(user, &write, 1));
	kurma_attributes stat;
	OK(kurma_stat(user, "/home/mine", &stat));
	CHECK(stat.uid == 1000 && stat.gid == 1001 && stat.mode == 0600);
	/* Nothing of what is refused is done, and all of what is allowed. */
	const kurma_file mine[] = { AT("/home/mine"), open_file(opened(user, "/home/mine", KURMA_READ | KURMA_WRITE)) };
	for (int n = 0; n < 2; n++) {
		kurma_setattr_arg set = { .file = mine[n], .attributes = { .set = KURMA_OWNER | KURMA_SIZE } };
		FAILS(EPERM, 0, kurma_vsetattrs(user, &set, 1));
		OK(kurma_stat(user, "/home/mine", &stat));
		CHECK(stat.size == 1);
		set.attributes = (kurma_new_attributes){ .set = KURMA_MODE | KURMA_SIZE, .mode = 04700, .size = 1 };
		OK(kurma_vsetattrs(user, &set, 1));
		OK(kurma_stat(user, "/home/mine", &stat));
		CHECK(stat.mode == 04700);
	}
	OK(kurma_close(user));
}

static void a_server_that_takes_few_operations_at_once_gives_the_same_results(world *w)
{
	const char *way = "/home/d/d/d/d/d/d/d";
	kurma_mkdir_arg deep[7];
	for (int n = 0; n < 7; n++)
		deep[n] = (kurma_mkdir_arg){ .file = AT("%.*s", 5 + 2 * (n + 1), way), .mode = 0755 };
	OK(kurma_vmkdir(w->client, deep, 7));
	kurma_write_arg writes[20];
	for (int n = 0; n < 20; n++)
		writes[n] = whole(text("%s/%d", way, n), 0600, text("%d", n));
	OK(kurma_vwrite(w->client, writes, 20));
	OK(kurma_symlink(w->client, "d/d/d/d/d/d/d", "/home/link"));
	kurma_copy_arg copy = { .source = writes[1].file, .destination = { .path = "/home/copy" }, .mode = 0600,
				.length = KURMA_TO_END, .flags = KURMA_CREATE };
	kurma_pair rename = { writes[2].file, AT("/home/d/renamed") }, link = { writes[3].file, AT("/home/link/hard") };
	kurma_setattr_arg set = { .file = writes[4].file, .attributes = { .set = KURMA_SIZE, .size = 5 } };
	kurma_steps *steps;
	OK(kurma_steps_new(&steps));
	OK(kurma_steps_sscopy(steps, &copy, 1));
	OK(kurma_steps_rename(steps, &rename, 1));
	OK(kurma_steps_hardlink(steps, &link, 1));
	OK(kurma_steps_setattrs(steps, &set, 1));
	OK(kurma_steps_remove(steps, &writes[5].file, 1));
	OK(kurma_execute(w->client, steps));
	kurma_steps_free(steps);
	CHECK(has(w, "/home/copy", "1") && has(w, "/home/d/renamed", "2") && has(w, "/home/link/hard", "3"));
	CHECK(reads_as(w->client, "/home/link/4", "4\0\0\0", 5) && has(w, "/home/link/7", "7"));
	int entries = 0;
	kurma_file home = AT("/home");
	OK(kurma_vlistdir(w->client, &home, 1, KURMA_SIZE, KURMA_RECURSIVE, count_entries, &entries));
	CHECK(entries == 2 + 7 + 1 + 19);
}

static void a_way_that_becomes_longer_by_links_than_the_server_takes_at_once_is_gone_in_parts(world *w)
{
	char way[100] = "/home", link[100] = "";
	kurma_mkdir_arg deep[29];
	for (int n = 0; n < 29; n++) {
		strcat(way, "/d");
		deep[n] = (kurma_mkdir_arg){ .file = AT("%s", way), .mode = 0755 };
		if (n > 0)
			strcat(link, "d/");
	}
	OK(kurma_vmkdir(w->client, deep, 29));
	OK(kurma_symlink(w->client, link, "/home/link"));
	OK(kurma_symlink(w->client, "loop/on", "/home/loop"));
	int entries = 0;
	kurma_file target = AT("/home/link"), loop = AT("/home/loop");
	OK(kurma_vlistdir(w->client, &target, 1, 0, 0, count_entries, &entries));
	CHECK(entries == 1);
	FAILS(ELOOP, 0, kurma_vlistdir(w->client, &loop, 1, 0, 0, count_entries, &entries));
}

static kurma_client *impatient(world *w)
{
	kurma_options options;
	kurma_client *client;
	kurma_options_init(&options, sizeof options);
	options.timeout = 300;
	options.patience = 1000;
	OK(kurma_connect(w->place, &options, &client));
	return client;
}

static void a_server_that_is_gone_ends_calls_and_lets_go_of_memory(world *w)
{
	kurma_client *client = impatient(w);
	char *data = malloc(100000);
	kurma_write_arg write = { .file = { .path = "/home/file" }, .length = 100000, .data = memset(data, 'x', 100000),
				  .flags = KURMA_CREATE, .mode = 0600 };
	OK(kurma_vwrite(client, &write, 1));
	until_it_has_happened();
	kurma_result result = kurma_vwrite(client, &write, 1);
	CHECK(result.status == EIO && result.done == 0 && result.index == 0 && result.message[0]);
	/* Nothing is repeated from here, so it may go. */
	memset(data, 'y', 100000);
	free(data);
	kurma_attributes stat;
	FAILS(EIO, 0, kurma_stat(client, "/home/file", &stat));
	CHECK(kurma_close(client).status == EIO);
	/* The other client of this case has more patience than the test. */
	_exit(0);
}

static void a_lost_answer_is_told_as_unknown_and_nothing_is_repeated(world *w)
{
	kurma_client *client = impatient(w);
	char line[] = "once\n";
	kurma_write_arg writes[] = { whole("/home/log", 0600, line), whole("/home/other", 0600, line) };
	writes[0].flags = writes[1].flags = KURMA_CREATE;
	writes[0].offset = KURMA_APPEND;
	kurma_client *closing = impatient(w);
	uint64_t fd;
	const char *open = "/home/open";
	OK(kurma_vopen_simple(closing, &open, 1, KURMA_READ | KURMA_CREATE, 0600, &fd));
	until_it_has_happened();
	kurma_result result = kurma_vwrite(client, writes, 2);
	CHECK(result.status == EIO && result.done == 0 && result.index == 0 && result.unknown == 2);
	result = kurma_vclose(closing, &fd, 1);
	CHECK(result.status == EIO && result.done == 0 && result.index == 0 && result.unknown == 1);
	/* If it were looked at again, this would be seen in the file. */
	memset(line, 'X', sizeof line - 1);
	kurma_close(client);
	_exit(0);
}

static void what_was_left_by_a_lost_answer_was_done_once(world *w)
{
	CHECK(has(w, "/home/log", "once\n") && has(w, "/home/other", "once\n"));
}

/* The place is the server and a folder of PEM files. */
static void connections_are_protected_by_tls(world *w)
{
	char server[64];
	const char *folder = strchr(w->place, ' ');
	CHECK(folder != NULL && (size_t)(folder - w->place) < sizeof server);
	snprintf(server, sizeof server, "%.*s", (int)(folder - w->place), w->place);
	folder++;
	kurma_options options;
	kurma_options_init(&options, sizeof options);
	kurma_client *client = NULL;
	/* In the clear it is not to be had. */
	CHECK(kurma_connect(server, &options, &client).status != 0);
	options.tls_server = "box.example";
	options.tls_authorities = text("%s/none", folder);
	FAILS(ENOENT, KURMA_NO_INDEX, kurma_connect(server, &options, &client));
	options.tls_authorities = text("%s/authorities", folder);
	options.tls_certificates = text("%s/certificates", folder);
	options.tls_key = text("%s/key", folder);
	OK(kurma_connect(server, &options, &client));
	OK(kurma_write_file(client, "/home/file", "secret", 6, 0600));
	world protected = { .client = client };
	CHECK(has(&protected, "/home/file", "secret"));
	OK(kurma_close(client));
	client = NULL;
	/* Another server would not be believed. */
	options.tls_server = "other.example";
	CHECK(kurma_connect(server, &options, &client).status != 0);
	CHECK(client == NULL);
}

const test_case server_cases[] = {
	CASE(a_client_of_nowhere_is_refused),
	CASE(what_is_forbidden_is_refused),
	CASE(a_server_that_takes_few_operations_at_once_gives_the_same_results),
	CASE(a_way_that_becomes_longer_by_links_than_the_server_takes_at_once_is_gone_in_parts),
	CASE(a_server_that_is_gone_ends_calls_and_lets_go_of_memory),
	CASE(a_lost_answer_is_told_as_unknown_and_nothing_is_repeated),
	CASE(what_was_left_by_a_lost_answer_was_done_once),
	CASE(connections_are_protected_by_tls),
	{ NULL, NULL },
};
