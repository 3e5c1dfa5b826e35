/* Whole trees. */
#include "suite.h"

typedef struct told {
	size_t count, failures;
	const char *files[2000];
	kurma_fate failed[16];
	int nested; /* status of a call from within */
	world *w;
} told;

static void tell(const kurma_fate *fate, void *opaque)
{
	told *t = opaque;
	CHECK((fate->message[0] != 0) == (fate->status != 0));
	if (fate->status == 0) {
		CHECK(t->count < 2000);
		t->files[t->count++] = text("%s", fate->copy.path ? fate->copy.path : fate->file.path);
	} else {
		CHECK(t->failures < 16);
		t->failed[t->failures] = *fate;
		t->failed[t->failures++].file.path = text("%s", fate->file.path);
	}
	if (t->w) {
		kurma_attributes stat;
		t->nested = kurma_stat(t->w->client, "/home", &stat).status;
	}
}

static told *listener(void)
{
	return room(1, sizeof(told));
}

static int has_told(const told *t, const char *file)
{
	for (size_t n = 0; n < t->count; n++)
		if (strcmp(t->files[n], file) == 0)
			return 1;
	return 0;
}

static void a_deep_directory_takes_two_round_trips(world *w)
{
	make_directory(w, "/home/a");
	make_directory(w, "/home/a/b");
	const kurma_file deep = AT("/home/a/b/c/d/e/f");
	uint64_t before = trips(w);
	kurma_result result = kurma_ensure_directory(w->client, deep, 0750);
	OK(result);
	CHECK(result.done == 4 && trips(w) - before == (w->is_nfs ? 2 : 0));
	kurma_attributes stat;
	OK(kurma_stat(w->client, deep.path, &stat));
	CHECK(stat.kind == KURMA_DIRECTORY && stat.mode == 0750);
	COSTS(1, kurma_ensure_directory(w->client, deep, 0750));
}

static void *make_deep(void *client)
{
	OK(kurma_ensure_directory(*(kurma_client **)client, AT("/home/x/y/z"), 0755));
	return NULL;
}

static void several_may_make_the_same_directory_at_once(world *w)
{
	kurma_client *others[6];
	for (int n = 0; n < 6; n++)
		others[n] = another(w);
	at_once(6, make_deep, others, sizeof *others);
	for (int n = 0; n < 6; n++)
		OK(kurma_close(others[n]));
	CHECK(there(w, "/home/x/y/z"));
}

static void a_file_on_the_way_to_a_directory_is_an_error(world *w)
{
	make(w, "/home/file", "x");
	FAILS(ENOTDIR, 0, kurma_ensure_directory(w->client, AT("/home/file/below"), 0755));
	FAILS(ENOTDIR, 0, kurma_ensure_directory(w->client, AT("/home/file"), 0755));
}

/* Directories, files, links of both kinds and odd modes; how many objects. */
static size_t tree(world *w)
{
	size_t count = 1;
	make_directory(w, "/home/tree");
	for (int n = 0; n < 4; n++) {
		make_directory(w, text("/home/tree/d%d", n));
		make_directory(w, text("/home/tree/d%d/below", n));
		for (int file = 0; file < 3; file++)
			OK(kurma_write_file(w->client, text("/home/tree/d%d/below/f%d", n, file), bytes(1000, 3), 300u * (unsigned)file,
					    file == 1 ? 0600 : 0755));
		OK(kurma_symlink(w->client, "../no/where", text("/home/tree/d%d/link", n)));
		OK(kurma_link(w->client, text("/home/tree/d%d/below/f1", n), text("/home/tree/d%d/name", n)));
		count += 7;
	}
	OK(kurma_write_file(w->client, "/home/tree/large", bytes((3 << 20) + 5, 7), (3 << 20) + 5, 0640));
	OK(kurma_symlink(w->client, "../tree", "/home/tree/loop"));
	const kurma_time time = { .seconds = 1000000000, .nanoseconds = 5000000 };
	OK(kurma_utimens(w->client, "/home/tree/large", &time, &time));
	OK(kurma_chmod(w->client, "/home/tree/d0", 0500));
	return count + 2;
}

typedef struct sum {
	world *w;
	uint64_t names;
	size_t count;
} sum;

static int add(const kurma_entry *entry, void *opaque)
{
	sum *s = opaque;
	const kurma_attributes *it = entry->attributes;
	const char *path = text("%s/%s", entry->directory.path, entry->name);
	uint64_t hash = 1469598103934665603u;
	for (const char *at = entry->name; *at; at++)
		hash = (hash ^ (unsigned char)*at) * 1099511628211u;
	hash += it->kind * 3 + (it->kind == KURMA_SYMBOLIC_LINK ? 0 : it->mode) * 5;
	if (it->kind == KURMA_FILE) {
		unsigned char *data;
		size_t length;
		OK(kurma_read_file(s->w->client, path, (void **)&data, &length));
		CHECK(length == it->size);
		for (size_t n = 0; n < length; n++)
			hash = (hash ^ data[n]) * 1099511628211u;
		free(data);
		hash += it->links * 7 + (uint64_t)it->modified.seconds * 11 + it->modified.nanoseconds * 13;
	}
	if (it->kind == KURMA_SYMBOLIC_LINK) {
		char where[100];
		OK(kurma_readlink(s->w->client, path, where, sizeof where, NULL));
		for (const char *at = where; *at; at++)
			hash = (hash ^ (unsigned char)*at) * 1099511628211u;
	}
	s->names += hash;
	s->count++;
	return 0;
}

static sum content(world *w, const char *root)
{
	sum s = { .w = w };
	kurma_file directory = AT("%s", root);
	OK(kurma_vlistdir(w->client, &directory, 1, KURMA_STAT, KURMA_RECURSIVE, add, &s));
	return s;
}

static void a_copied_tree_is_the_same(world *w)
{
	size_t count = tree(w);
	sum original = content(w, "/home/tree");
	CHECK(original.count == count - 1);
	kurma_pair copy = { AT("/home/tree"), AT("/home/copy") };
	kurma_result result =
		kurma_cp_recursive(w->client, &copy, 1, w->client, KURMA_COPY_ALL, 022, NULL, NULL);
	OK(result);
	CHECK(result.done == count);
	sum same = content(w, "/home/copy");
	CHECK(same.count == original.count && same.names == original.names);
	/* And between two clients, through memory. */
	kurma_client *other = another(w);
	told *t = listener();
	t->w = w;
	copy.to = AT("/home/again");
	OK(kurma_cp_recursive(other, &copy, 1, w->client, KURMA_COPY_ALL, 022, tell, t));
	OK(kurma_close(other));
	same = content(w, "/home/again");
	CHECK(same.count == original.count && same.names == original.names);
	CHECK(t->count == count && has_told(t, "/home/again/large"));
	CHECK(t->nested == EOPNOTSUPP);
	const unsigned char *end = (const unsigned char *)"";
	OK(kurma_write_file(w->client, "/home/copy/large", end, 0, 0600));
	CHECK(content(w, "/home/copy").names != original.names);
}

/* As NFSv4.1, and servers of 4.2 that leave it out. */
static void a_server_that_has_no_copy_is_not_asked_for_one_again_and_again(world *w)
{
	kurma_options options = superuser();
	options.minor_version = 1;
	options.cache_bytes = KURMA_NO_CACHE;
	kurma_client *old = another_with(w, options);
	make_directory(w, "/home/tree");
	for (int n = 0; n < 100; n++)
		make(w, text("/home/tree/%d", n), text("content %d", n));
	kurma_copy_arg one = copying("/home/tree/1", "/home/copy");
	FAILS(EOPNOTSUPP, 0, kurma_vsscopy(old, &one, 1));
	kurma_pair copy = { AT("/home/tree"), AT("/home/other") };
	kurma_statistics before = so_far(old);
	OK(kurma_cp_recursive(old, &copy, 1, old, 0, 022, NULL, NULL));
	/* The argument, the directory, its names, COPY, then reading and writing, mode and times of the directory. */
	CHECK(since(old, before).round_trips <= 9);
	for (int n = 0; n < 100; n++)
		CHECK(has(w, text("/home/other/%d", n), text("content %d", n)));
	OK(kurma_close(old));
}

static void a_tree_of_small_files_is_copied_in_few_round_trips(world *w)
{
	kurma_client *to = another(w);
	kurma_mkdir_arg directories[50];
	kurma_write_arg *files = room(1000, sizeof *files);
	make_directory(w, "/home/tree");
	for (int n = 0; n < 50; n++)
		directories[n] = (kurma_mkdir_arg){ .file = AT("/home/tree/d%d", n), .mode = 0755 };
	for (int n = 0; n < 1000; n++)
		files[n] = whole(text("/home/tree/d%d/f%d", n % 50, n), 0644, "some data");
	OK(kurma_vmkdir(w->client, directories, 50));
	OK(kurma_vwrite(w->client, files, 1000));
	kurma_pair copy = { AT("/home/tree"), AT("/home/copy") };
	uint64_t before = trips(w);
	kurma_statistics before_there = so_far(to);
	kurma_result result = kurma_cp_recursive(w->client, &copy, 1, to, 0, 022, NULL, NULL);
	OK(result);
	CHECK(result.done == 1051);
	/* One for the root, one or two for the directories, a few for the files: with the usual client, seven a file. */
	CHECK(trips(w) - before <= 14 && since(to, before_there).round_trips <= 16);
	CHECK(has(w, "/home/copy/d7/f957", "some data"));
	OK(kurma_close(to));
}

static void what_cannot_be_copied_is_told_and_the_rest_goes_on(world *w)
{
	const char *const directories[] = { "/home/a", "/home/a/x", "/home/b", "/home/b/a", "/home/b/a/y" };
	const char *const files[] = { "/home/a/1", "/home/a/2", "/home/a/y", "/home/b/a/x" };
	for (int n = 0; n < 5; n++)
		make_directory(w, directories[n]);
	for (int n = 0; n < 4; n++)
		make(w, files[n], files[n]);
	told *t = listener();
	kurma_pair copies[] = { { AT("/home/none"), AT("/home/b/none") }, { AT("/home/a"), AT("/home/b/a") },
				{ AT("/home/a/1"), AT("/home/a/1") } };
	kurma_result result = kurma_cp_recursive(w->client, copies, 3, w->client, 0, 022, tell, t);
	CHECK(result.status != 0 && result.index < 3 && result.done == 2 && result.message[0]);
	CHECK(t->count == 2 && has_told(t, "/home/b/a/1") && has_told(t, "/home/b/a/2"));
	CHECK(t->failures == 4);
	int seen = 0;
	for (size_t n = 0; n < 4; n++) {
		const kurma_fate *it = &t->failed[n];
		if (strcmp(it->file.path, "/home/none") == 0)
			seen |= (it->status == ENOENT && it->element == 0) << 0;
		if (strcmp(it->file.path, "/home/a/x") == 0)
			seen |= (it->status == ENOTDIR && it->element == 1) << 1;
		if (strcmp(it->file.path, "/home/a/y") == 0)
			seen |= (it->status == EISDIR && it->element == 1) << 2;
		if (strcmp(it->file.path, "/home/a/1") == 0)
			seen |= (it->status == EINVAL && it->element == 2) << 3;
	}
	CHECK(seen == 15);
}

static void files_stay_where_they_are_kept(world *w)
{
	make_directory(w, "/home/a");
	make_directory(w, "/home/b");
	make(w, "/home/a/x", "new");
	make(w, "/home/a/y", "new");
	make(w, "/home/b/x", "old");
	kurma_pair copy = { AT("/home/a"), AT("/home/b") };
	told *t = listener();
	OK(kurma_cp_recursive(w->client, &copy, 1, w->client, KURMA_COPY_KEEP, 022, tell, t));
	CHECK(t->count == 1 && has_told(t, "/home/b/y") && has(w, "/home/b/x", "old"));
	OK(kurma_cp_recursive(w->client, &copy, 1, w->client, 0, 022, NULL, NULL));
	CHECK(has(w, "/home/b/x", "new"));
}

static void a_tree_of_links_leads_to_the_original(world *w)
{
	OK(kurma_ensure_directory(w->client, AT("/home/a/b"), 0755));
	make(w, "/home/a/b/x", "there");
	kurma_pair soft = { AT("/home/a"), AT("/home/soft") }, hard = { AT("/home/a"), AT("/home/hard") };
	OK(kurma_cp_recursive(w->client, &soft, 1, w->client, KURMA_COPY_SYMBOLIC, 022, NULL, NULL));
	OK(kurma_cp_recursive(w->client, &hard, 1, w->client, KURMA_COPY_HARD, 022, NULL, NULL));
	CHECK(has(w, "/home/soft/b/x", "there") && has(w, "/home/hard/b/x", "there"));
	char where[64];
	OK(kurma_readlink(w->client, "/home/soft/b/x", where, sizeof where, NULL));
	CHECK(strcmp(where, "/home/a/b/x") == 0);
	kurma_attributes stat;
	OK(kurma_lstat(w->client, "/home/hard/b/x", &stat));
	CHECK(stat.links == 2);
}

static void a_tree_is_removed_children_first_and_links_are_not_followed(world *w)
{
	size_t count = tree(w);
	OK(kurma_chmod(w->client, "/home/tree/d0", 0700));
	make_directory(w, "/home/outside");
	make(w, "/home/outside/stays", "x");
	OK(kurma_symlink(w->client, "../outside", "/home/tree/out"));
	OK(kurma_symlink(w->client, "outside", "/home/argument"));
	told *t = listener();
	kurma_file files[] = { AT("/home/none"), AT("/home/tree"), AT("/home/argument") };
	uint64_t before = trips(w);
	kurma_result result = kurma_rm_recursive(w->client, files, 3, tell, t);
	CHECK(trips(w) - before <= 16);
	CHECK(result.status == ENOENT && result.index == 0 && result.done == count + 2);
	CHECK(t->failures == 1 && t->failed[0].status == ENOENT && t->count == count + 2);
	for (size_t n = 0; n < t->count; n++) {
		size_t length = strlen(t->files[n]);
		for (size_t later = n + 1; later < t->count; later++)
			CHECK(strncmp(t->files[later], t->files[n], length) != 0 || t->files[later][length] != '/');
	}
	CHECK(there(w, "/home/outside/stays") && !there(w, "/home/tree"));
	kurma_file rest = AT("/home/outside");
	OK(kurma_rm_recursive(w->client, &rest, 1, NULL, NULL));
}

static void a_directory_is_not_copied_into_itself_without_end(world *w)
{
	OK(kurma_ensure_directory(w->client, AT("/home/a/b"), 0755));
	OK(kurma_symlink(w->client, "a/b", "/home/disguise"));
	kurma_pair copies[] = { { AT("/home/a"), AT("/home/a/copy") }, { AT("/home/a"), AT("/home/disguise/copy") } };
	for (int n = 0; n < 2; n++) {
		told *t = listener();
		kurma_result result = kurma_cp_recursive(w->client, &copies[n], 1, w->client, 0, 022, tell, t);
		CHECK(result.status == EINVAL && strstr(result.message, "into itself") && t->failures > 0);
	}
}

static void a_copy_over_a_link_to_its_original_replaces_the_link(world *w)
{
	make_directory(w, "/home/a");
	make_directory(w, "/home/b");
	make(w, "/home/a/x", "precious");
	OK(kurma_symlink(w->client, "../a/x", "/home/b/x"));
	kurma_pair copy = { AT("/home/a"), AT("/home/b") };
	OK(kurma_cp_recursive(w->client, &copy, 1, w->client, 0, 022, NULL, NULL));
	kurma_attributes stat;
	OK(kurma_lstat(w->client, "/home/b/x", &stat));
	CHECK(stat.kind == KURMA_FILE && has(w, "/home/a/x", "precious") && has(w, "/home/b/x", "precious"));
}

static void a_directory_of_many_pages_is_removed_whole(world *w)
{
	kurma_symlink_arg *links = room(12000, sizeof *links);
	kurma_mkdir_arg *below = room(3000, sizeof *below);
	make_directory(w, "/home/wide");
	for (int n = 0; n < 12000; n++)
		links[n] = (kurma_symlink_arg){ AT("/home/wide/a-name-%d", n), "x" };
	for (int n = 0; n < 3000; n++)
		below[n] = (kurma_mkdir_arg){ .file = AT("/home/wide/directory-%d", n), .mode = 0755 };
	OK(kurma_vsymlink(w->client, links, 12000));
	OK(kurma_vmkdir(w->client, below, 3000));
	kurma_file wide = AT("/home/wide");
	kurma_result result = kurma_rm_recursive(w->client, &wide, 1, NULL, NULL);
	OK(result);
	CHECK(result.done == 15001 && !there(w, "/home/wide"));
}

typedef struct latecomer {
	kurma_client *client;
	kurma_result removed;
	int comes;
} latecomer;

static void *come_or_remove(void *opaque)
{
	latecomer *me = opaque;
	kurma_file busy = { .path = "/home/busy" };
	kurma_write_arg write = { .file = { .path = "/home/busy/below/late" }, .data = "x", .length = 1, .mode = 0644,
				  .flags = KURMA_CREATE };
	if (me->comes)
		/* Later than the listing or not: both are right. */
		(void)kurma_vwrite(me->client, &write, 1);
	else
		me->removed = kurma_rm_recursive(me->client, &busy, 1, NULL, NULL);
	return NULL;
}

static void what_others_put_into_a_tree_meanwhile_goes_too(world *w)
{
	kurma_write_arg *files = room(600, sizeof *files);
	for (int n = 0; n < 600; n++)
		files[n] = whole(text("/home/busy/below/f%d", n), 0644, "x");
	OK(kurma_ensure_directory(w->client, AT("/home/busy/below"), 0755));
	OK(kurma_vwrite(w->client, files, 600));
	latecomer both[] = { { .client = w->client }, { .client = another(w), .comes = 1 } };
	at_once(2, come_or_remove, both, sizeof *both);
	OK(both[0].removed);
	CHECK(!there(w, "/home/busy"));
	OK(kurma_close(both[1].client));
}

const test_case tree_cases[] = {
	CASE(a_deep_directory_takes_two_round_trips),
	CASE(several_may_make_the_same_directory_at_once),
	CASE(a_file_on_the_way_to_a_directory_is_an_error),
	CASE(a_copied_tree_is_the_same),
	CASE(a_server_that_has_no_copy_is_not_asked_for_one_again_and_again),
	CASE(a_tree_of_small_files_is_copied_in_few_round_trips),
	CASE(what_cannot_be_copied_is_told_and_the_rest_goes_on),
	CASE(files_stay_where_they_are_kept),
	CASE(a_tree_of_links_leads_to_the_original),
	CASE(a_tree_is_removed_children_first_and_links_are_not_followed),
	CASE(a_directory_is_not_copied_into_itself_without_end),
	CASE(a_copy_over_a_link_to_its_original_replaces_the_link),
	CASE(a_directory_of_many_pages_is_removed_whole),
	CASE(what_others_put_into_a_tree_meanwhile_goes_too),
	{ NULL, NULL },
};
