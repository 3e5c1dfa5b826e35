/* Open files. */
#include "suite.h"

static kurma_open_arg opening(const char *path, uint32_t flags)
{
	return (kurma_open_arg){ .file = { .path = path }, .flags = flags, .mode = 0640 };
}

static kurma_write_arg writing(uint64_t fd, const char *content, uint32_t flags)
{
	return (kurma_write_arg){ .file = { .fd = fd }, .data = content, .length = strlen(content), .flags = flags };
}

static void files_are_opened_as_each_is_wanted_in_one_round_trip(world *w)
{
	make(w, "/home/a", "a");
	kurma_open_arg opens[] = { opening("/home/a", KURMA_READ), opening("/home/b", KURMA_READ | KURMA_WRITE | KURMA_CREATE),
				   opening("/home/a", KURMA_READ | KURMA_WRITE | KURMA_TRUNCATE) };
	COSTS(1, kurma_vopen(w->client, opens, 3));
	uint64_t fds[] = { opens[0].fd, opens[1].fd, opens[2].fd };
	CHECK(fds[0] && fds[1] && fds[2] && fds[0] != fds[1] && fds[1] != fds[2]);
	kurma_write_arg refused = writing(fds[0], "x", 0);
	FAILS(EBADF, 0, kurma_vwrite(w->client, &refused, 1));
	kurma_write_arg writes[] = { writing(fds[1], "made", 0), writing(fds[2], "again", KURMA_STABLE) };
	OK(kurma_vwrite(w->client, writes, 2));
	OK(kurma_vcommit(w->client, &fds[1], 1));
	COSTS(1, kurma_vclose(w->client, fds, 3));
	kurma_read_arg closed = { .file = { .fd = fds[0] }, .length = 1, .data = room(1, 1) };
	FAILS(EBADF, 0, kurma_vread(w->client, &closed, 1));
	kurma_client *other = another(w);
	kurma_read_arg reads[] = { reading("/home/a", 0, 9), reading("/home/b", 0, 9) };
	OK(kurma_vread(other, reads, 2));
	CHECK(is(&reads[0], "again") && is(&reads[1], "made"));
	OK(kurma_close(other));
}

/* Another client, which does without what only this server has; on this machine just another one. */
static kurma_client *stranger(const world *w)
{
	kurma_options options = superuser();
	options.no_extensions = 1;
	return w->is_nfs ? another_with(w, options) : another(w);
}

static void what_is_open_for_reading_alone_is_not_written_however_little(world *w)
{
	make(w, "/home/a", "a");
	kurma_client *clients[] = { w->client, stranger(w) };
	for (int n = 0; n < 2; n++) {
		uint64_t fd = opened(clients[n], "/home/a", KURMA_READ);
		for (int way = 0; way < 4; way++) {
			kurma_write_arg write = writing(fd, way % 2 ? "x" : "", 0);
			write.offset = way / 2 ? KURMA_APPEND : 0;
			FAILS(EBADF, 0, kurma_vwrite(clients[n], &write, 1));
		}
		kurma_copy_arg nothing = copying("/home/a", NULL);
		nothing.destination = open_file(fd);
		nothing.length = 0;
		nothing.flags = 0;
		FAILS(EBADF, 0, kurma_vsscopy(clients[n], &nothing, 1));
		OK(kurma_close_file(clients[n], fd));
	}
	OK(kurma_close(clients[1]));
}

static void a_copy_between_open_files_may_replace_what_is_there(world *w)
{
	make(w, "/home/a", "new");
	make(w, "/home/b", "longer");
	const kurma_file sources[] = { open_file(opened(w->client, "/home/a", KURMA_READ)), AT("/home/a") };
	const kurma_file destinations[] = { open_file(opened(w->client, "/home/b", KURMA_READ | KURMA_WRITE)), AT("/home/b") };
	for (int n = 0; n < 4; n++) {
		make(w, "/home/b", "longer");
		kurma_copy_arg copy = copying(NULL, NULL);
		copy.source = sources[n / 2];
		copy.destination = destinations[n % 2];
		copy.flags = KURMA_TRUNCATE;
		OK(kurma_vsscopy(w->client, &copy, 1));
		CHECK(has(w, "/home/b", "new"));
	}
}

static void what_is_written_and_closed_by_one_vector_is_safe(world *w)
{
	uint64_t spent[2];
	for (int stable = 0; stable < 2; stable++) {
		uint64_t fd = opened(w->client, "/home/a", KURMA_READ | KURMA_WRITE | KURMA_CREATE);
		kurma_write_arg write = writing(fd, "x", stable ? KURMA_STABLE : 0);
		kurma_steps *steps;
		OK(kurma_steps_new(&steps));
		OK(kurma_steps_write(steps, &write, 1));
		OK(kurma_steps_close(steps, &fd, 1));
		uint64_t before = operations(w);
		OK(kurma_execute(w->client, steps));
		spent[stable] = operations(w) - before;
		kurma_steps_free(steps);
	}
	/* COMMIT. */
	CHECK(spent[0] == spent[1] + 1);
}

static void what_is_too_far_out_for_a_file_is_not_appended(world *w)
{
	make(w, "/home/a", "keep");
	kurma_client *clients[] = { w->client, stranger(w) };
	for (int n = 0; n < 4; n++) {
		kurma_client *c = clients[n / 2];
		uint64_t fd = opened(c, "/home/a", KURMA_READ | KURMA_WRITE);
		kurma_write_arg far = { .file = n % 2 ? open_file(fd) : AT("/home/a"), .offset = UINT64_MAX - (2 << 20),
					.length = 5 << 20, .data = room(5 << 20, 1) };
		CHECK(kurma_vwrite(c, &far, 1).status != 0);
		CHECK(size_of(w, "/home/a") == 4);
		OK(kurma_close_file(c, fd));
	}
	OK(kurma_close(clients[1]));
}

static void an_open_file_is_a_target_of_every_kind_of_call(world *w)
{
	make(w, "/home/c", "here");
	uint64_t fd, again;
	OK(kurma_open(w->client, "/home/c", KURMA_READ | KURMA_WRITE, 0, &fd));
	OK(kurma_rename(w->client, "/home/c", "/home/d"));
	kurma_getattr_arg get = { .file = { .fd = fd }, .wanted = KURMA_SIZE };
	OK(kurma_vgetattrs(w->client, &get, 1));
	CHECK(get.attributes.present == KURMA_SIZE && get.attributes.size == 4);
	kurma_setattr_arg set = { .file = { .fd = fd }, .attributes = { .set = KURMA_SIZE, .size = 3 } };
	OK(kurma_vsetattrs(w->client, &set, 1));
	kurma_pair link = { open_file(fd), AT("/home/e") };
	OK(kurma_vhardlink(w->client, &link, 1));
	kurma_copy_arg copy = { .source = { .fd = fd }, .destination = { .path = "/home/f" }, .mode = 0600,
				.length = KURMA_TO_END, .flags = KURMA_CREATE };
	OK(kurma_vsscopy(w->client, &copy, 1));
	CHECK(has(w, "/home/e", "her") && has(w, "/home/f", "her"));
	kurma_open_arg open = { .file = { .fd = fd }, .flags = KURMA_READ };
	OK(kurma_vopen(w->client, &open, 1));
	again = open.fd;
	kurma_read_arg read = { .file = { .fd = again }, .offset = 1, .length = 9, .data = room(9, 1) };
	OK(kurma_vread(w->client, &read, 1));
	CHECK(is(&read, "er"));
	kurma_read_arg below = read;
	below.file = (kurma_file){ .path = "below", .fd = fd };
	FAILS(ENOTDIR, 0, kurma_vread(w->client, &below, 1));
	kurma_file open_one = open_file(fd);
	FAILS(EINVAL, 0, kurma_vremove(w->client, &open_one, 1));
	uint64_t fds[] = { fd, again };
	OK(kurma_vclose(w->client, fds, 2));
}

static void a_path_may_begin_at_a_handle(world *w)
{
	make_directory(w, "/home/a");
	make_directory(w, "/home/a/b");
	make(w, "/home/a/b/c", "here");
	kurma_getattr_arg get = { .file = { .path = "/home/a" }, .wanted = KURMA_HANDLE };
	OK(kurma_vgetattrs(w->client, &get, 1));
	kurma_read_arg read = reading("b/c", 0, 9);
	read.file.handle = &get.attributes.handle;
	if (w->is_nfs) {
		CHECK(get.attributes.present == KURMA_HANDLE && get.attributes.handle.length > 0);
		OK(kurma_vread(w->client, &read, 1));
		CHECK(is(&read, "here"));
	} else {
		CHECK(get.attributes.present == 0);
		FAILS(EOPNOTSUPP, 0, kurma_vread(w->client, &read, 1));
	}
}

static void what_was_opened_before_a_failure_stays_open(world *w)
{
	make(w, "/home/a", "a");
	kurma_open_arg opens[] = { opening("/home/a", KURMA_READ), opening("/home/none", KURMA_READ),
				   opening("/home/a", KURMA_READ) };
	FAILS(ENOENT, 1, kurma_vopen(w->client, opens, 3));
	CHECK(opens[0].fd != 0 && opens[1].fd == 0 && opens[2].fd == 0);
	kurma_read_arg read = { .file = { .fd = opens[0].fd }, .length = 9, .data = room(9, 1) };
	OK(kurma_vread(w->client, &read, 1));
	CHECK(is(&read, "a"));
}

static void an_open_that_makes_no_sense_is_refused_and_changes_nothing(world *w)
{
	make(w, "/home/a", "a");
	kurma_open_arg opens[] = { opening("/home/a", KURMA_READ | KURMA_TRUNCATE), opening("/home/a", 0),
				   opening("/home/b", KURMA_CREATE), opening("/home/b", KURMA_WRITE | KURMA_EXCLUSIVE) };
	for (int n = 0; n < 4; n++)
		FAILS(EINVAL, 0, kurma_vopen(w->client, &opens[n], 1));
	CHECK(has(w, "/home/a", "a") && !there(w, "/home/b"));
}

static void files_are_opened_in_one_way_by_their_paths(world *w)
{
	const char *paths[] = { "/home/a", "/home/b", "/home/none/c" };
	uint64_t fds[3] = { 0 };
	FAILS(ENOENT, 2, kurma_vopen_simple(w->client, paths, 3, KURMA_READ | KURMA_WRITE | KURMA_CREATE, 0600, fds));
	CHECK(fds[0] && fds[1] && !fds[2]);
	kurma_write_arg write = writing(fds[1], "b", 0);
	OK(kurma_vwrite(w->client, &write, 1));
	COSTS(1, kurma_vclose(w->client, fds, 2));
	CHECK(has(w, "/home/b", "b"));
	FAILS(EBADF, 0, kurma_vclose(w->client, fds, 2));
	FAILS(EBADF, 2, kurma_vclose(w->client, fds, 3));
}

static void an_open_that_a_failed_vector_left_behind_is_closed(world *w)
{
	make(w, "/home/a", "a");
	kurma_write_arg write = whole("/home/a", 0, "beyond");
	write.flags = 0;
	write.offset = UINT64_MAX - 1;
	/* Fails after the OPEN: there is nothing so far out. The client can go only when it holds nothing (RFC 8881 18.50), which
	 * the end of each case sees to. */
	CHECK(kurma_vwrite(w->client, &write, 1).status != 0);
	OK(kurma_unlink(w->client, "/home/a"));
}

const test_case descriptor_cases[] = {
	CASE(files_are_opened_as_each_is_wanted_in_one_round_trip),
	CASE(what_is_open_for_reading_alone_is_not_written_however_little),
	CASE(a_copy_between_open_files_may_replace_what_is_there),
	CASE(what_is_written_and_closed_by_one_vector_is_safe),
	CASE(what_is_too_far_out_for_a_file_is_not_appended),
	CASE(an_open_file_is_a_target_of_every_kind_of_call),
	CASE(a_path_may_begin_at_a_handle),
	CASE(what_was_opened_before_a_failure_stays_open),
	CASE(an_open_that_makes_no_sense_is_refused_and_changes_nothing),
	CASE(files_are_opened_in_one_way_by_their_paths),
	CASE(an_open_that_a_failed_vector_left_behind_is_closed),
	{ NULL, NULL },
};
