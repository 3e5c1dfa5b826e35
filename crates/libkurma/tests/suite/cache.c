/* What was read before: what reading it again costs, and that it is never anything but what is there. */
#include "suite.h"

/* Bytes of messages without any content of files. */
#define NO_PAYLOAD 1024

static void an_unchanged_file_is_read_again_in_one_round_trip_without_its_content(world *w)
{
	const size_t lengths[] = { 0, 1, 10000, 1 << 20, (9 << 20) + 5 };
	for (int n = 0; n < 5; n++) {
		const unsigned char *data = bytes(lengths[n], 7);
		OK(kurma_write_file(w->client, "/home/a", data, lengths[n], 0600));
		CHECK(reads_as(w->client, "/home/a", data, lengths[n]));
		kurma_statistics before = so_far(w->client);
		CHECK(reads_as(w->client, "/home/a", data, lengths[n]));
		kurma_statistics spent = since(w->client, before);
		CHECK(spent.round_trips == 1 && spent.bytes_in < NO_PAYLOAD);
	}
}

static void a_path_that_is_believed_costs_nothing_until_the_file_changes(world *w)
{
	kurma_options options = superuser();
	CHECK(options.entry_timeout == 0);
	options.entry_timeout = 30000;
	kurma_client *client = another_with(w, options);
	for (int file = 1; file < 4; file++) {
		const char *path = text("/home/%d", file);
		make(w, path, "one");
		uint64_t before = 0;
		for (int n = 0; n < 4; n++) {
			kurma_read_arg read = reading(path, 0, 10);
			OK(kurma_vread(client, &read, 1));
			CHECK(is(&read, "one"));
			if (n == 0)
				before = so_far(client).round_trips;
		}
		CHECK(so_far(client).round_trips == before);
		overwrite(w->client, path, 0, "two");
		kurma_read_arg read = reading(path, 0, 10);
		OK(kurma_vread(client, &read, 1));
		CHECK(is(&read, "two"));
		OK(kurma_unlink(w->client, path));
		kurma_read_arg gone = reading(path, 0, 10);
		FAILS(ENOENT, 0, kurma_vread(client, &gone, 1));
	}
	OK(kurma_close(client));
}

static void what_another_client_has_changed_comes_in_the_same_round_trip(world *w)
{
	kurma_client *other = another(w);
	make(w, "/home/a", text("%5000d", 1));
	CHECK(has(w, "/home/a", text("%5000d", 1)));
	for (int change = 2; change < 5; change++) {
		overwrite(other, "/home/a", 0, text("%5000d", change));
		uint64_t before = trips(w);
		CHECK(has(w, "/home/a", text("%5000d", change)));
		CHECK(trips(w) - before == 1);
	}
	OK(kurma_close(other));
}

static void a_long_file_that_was_changed_is_read_anew_whole(world *w)
{
	const size_t length = (6 << 20) + 3;
	kurma_client *other = another(w);
	for (unsigned change = 1; change < 4; change++) {
		const unsigned char *data = bytes(length, change);
		OK(kurma_write_file(other, "/home/a", data, length, 0600));
		CHECK(reads_as(w->client, "/home/a", data, length));
		CHECK(reads_as(w->client, "/home/a", data, length));
	}
	OK(kurma_close(other));
}

/* Reads of as many files, and writes of the same. */
static kurma_read_arg *reads_of(int count, size_t length)
{
	kurma_read_arg *reads = room((size_t)count, sizeof *reads);
	for (int n = 0; n < count; n++)
		reads[n] = reading(text("/home/%d", n), 0, length);
	return reads;
}

static kurma_write_arg *writes_of(int count, const char *content)
{
	kurma_write_arg *writes = room((size_t)count, sizeof *writes);
	for (int n = 0; n < count; n++)
		writes[n] = whole(text("/home/%d", n), 0600, content);
	return writes;
}

static void of_many_files_those_that_were_changed_cost_one_round_trip_more(world *w)
{
	const char *old = text("%4096d", 1), *new = text("%4096d", 2);
	const int few[] = { 7, 0, 1, 100, 255 };
	kurma_client *other = another(w);
	kurma_write_arg *writes = writes_of(256, old);
	kurma_read_arg *reads = reads_of(256, 4096);
	OK(kurma_vwrite(other, writes, 256));
	COSTS(1, kurma_vread(w->client, reads, 256));
	kurma_statistics before = so_far(w->client);
	COSTS(1, kurma_vread(w->client, reads, 256));
	CHECK(since(w->client, before).bytes_in < 256 * 256);
	for (int n = 0; n < 256; n++)
		CHECK(is(&reads[n], old) && reads[n].end_of_file);
	for (int turn = 0; turn < 3; turn++) {
		int changed[256] = { 0 };
		for (int n = 0; n < 256; n++)
			changed[n] = turn == 2;
		for (int n = turn == 0 ? 0 : 1; n < (turn == 0 ? 1 : 5); n++)
			changed[few[n]] = 1;
		for (int n = 0; n < 256; n++)
			if (changed[n])
				overwrite(other, text("/home/%d", n), 0, new);
		COSTS(2, kurma_vread(w->client, reads, 256));
		for (int n = 0; n < 256; n++)
			CHECK(is(&reads[n], changed[n] ? new : old));
		OK(kurma_vwrite(other, writes, 256));
		OK(kurma_vread(w->client, reads, 256));
	}
	OK(kurma_close(other));
}

static void of_more_files_than_one_request_holds_those_that_were_changed_cost_one_round_more(world *w)
{
	const int changed[] = { 3, 250, 300, 301, 511, 512, 599 };
	kurma_client *other = another(w);
	kurma_read_arg *reads = reads_of(600, 100);
	OK(kurma_vwrite(other, writes_of(600, "1"), 600));
	OK(kurma_vread(w->client, reads, 600));
	COSTS(3, kurma_vread(w->client, reads, 600)); /* one for each 256 */
	for (int n = 0; n < 7; n++)
		overwrite(other, text("/home/%d", changed[n]), 0, "2");
	uint64_t before = trips(w);
	OK(kurma_vread(w->client, reads, 600));
	CHECK(trips(w) - before <= 6);
	for (int n = 0, at = 0; n < 600; n++) {
		int is_changed = at < 7 && changed[at] == n;
		at += is_changed;
		CHECK(is(&reads[n], is_changed ? "2" : "1"));
	}
	OK(kurma_close(other));
}

static void of_many_files_that_were_changed_the_content_of_the_last_comes_once(world *w)
{
	const size_t last = 500000;
	const int counts[] = { 2, 256, 257 }, expected[] = { 2, 2, 4 };
	kurma_client *other = another(w);
	for (int turn = 0; turn < 3; turn++) {
		int count = counts[turn];
		kurma_read_arg *reads = reads_of(count, 1);
		reads[count - 1] = reading(reads[count - 1].file.path, 0, last);
		for (unsigned change = 1; change < 3; change++) {
			kurma_write_arg *writes = writes_of(count, change == 1 ? "1" : "2");
			writes[count - 1].data = bytes(last, change);
			writes[count - 1].length = last;
			OK(kurma_vwrite(other, writes, (size_t)count));
			kurma_statistics before = so_far(w->client);
			OK(kurma_vread(w->client, reads, (size_t)count));
			kurma_statistics spent = since(w->client, before);
			for (int n = 0; n < count; n++)
				CHECK(reads[n].done == writes[n].length && memcmp(reads[n].data, writes[n].data, reads[n].done) == 0);
			if (change == 2)
				CHECK(spent.round_trips == (uint64_t)expected[turn] && spent.bytes_in / last == 1);
		}
	}
	OK(kurma_close(other));
}

static void a_name_that_leads_elsewhere_is_never_the_file_it_led_to(world *w)
{
	kurma_client *other = another(w);
	make(w, "/home/a", "was a");
	make(w, "/home/b", "was b");
	kurma_read_arg both[] = { reading("/home/a", 0, 100), reading("/home/b", 0, 100) };
	for (int n = 0; n < 2; n++) {
		OK(kurma_vread(w->client, both, 2));
		CHECK(is(&both[0], "was a") && is(&both[1], "was b"));
	}
	OK(kurma_rename(other, "/home/b", "/home/a"));
	CHECK(has(w, "/home/a", "was b"));
	FAILS(ENOENT, 1, kurma_vread(w->client, both, 2));
	OK(kurma_rename(other, "/home/a", "/home/c"));
	OK(kurma_symlink(other, "c", "/home/a"));
	CHECK(has(w, "/home/a", "was b") && has(w, "/home/a", "was b"));
	both[0].flags = KURMA_NOFOLLOW;
	FAILS(ELOOP, 0, kurma_vread(w->client, both, 1));
	OK(kurma_unlink(other, "/home/a"));
	OK(kurma_mkdir(other, "/home/a", 0700));
	both[0].flags = 0;
	FAILS(EISDIR, 0, kurma_vread(w->client, both, 1));
	OK(kurma_close(other));
}

static void what_must_not_be_read_any_more_is_not_read(world *w)
{
	kurma_options options = superuser();
	options.uid = options.gid = 1000;
	kurma_client *user = another_with(w, options);
	make(w, "/home/a", "secret");
	CHECK(reads_as(user, "/home/a", "secret", 6));
	OK(kurma_chmod(w->client, "/home/a", 0600));
	kurma_read_arg read = reading("/home/a", 0, 100);
	for (int n = 0; n < 2; n++)
		FAILS(EACCES, 0, kurma_vread(user, &read, 1));
	OK(kurma_close(user));
}

static void a_vector_that_changes_a_file_reads_it_as_it_is_at_that_place(world *w)
{
	make(w, "/home/a", "one");
	CHECK(has(w, "/home/a", "one"));
	kurma_read_arg reads[] = { reading("/home/a", 0, 10), reading("/home/a", 0, 10) };
	kurma_write_arg write = { .file = { .path = "/home/a" }, .data = "two", .length = 3 };
	kurma_steps *steps;
	OK(kurma_steps_new(&steps));
	OK(kurma_steps_read(steps, &reads[0], 1));
	OK(kurma_steps_write(steps, &write, 1));
	OK(kurma_steps_read(steps, &reads[1], 1));
	OK(kurma_execute(w->client, steps));
	kurma_steps_free(steps);
	CHECK(is(&reads[0], "one") && is(&reads[1], "two"));
}

static void what_is_open_for_writing_alone_is_not_read_from_memory_either(world *w)
{
	kurma_options options = superuser();
	options.cache_bytes = KURMA_NO_CACHE;
	kurma_client *forgetful = another_with(w, options);
	make(w, "/home/a", "one");
	uint64_t both = opened(w->client, "/home/a", KURMA_READ | KURMA_WRITE);
	CHECK(holds(w->client, both, "one"));
	char data[10];
	size_t done;
	int with = kurma_pread(w->client, opened(w->client, "/home/a", KURMA_WRITE), data, 10, 0, &done).status;
	int without = kurma_pread(forgetful, opened(forgetful, "/home/a", KURMA_WRITE), data, 10, 0, &done).status;
	CHECK(with == without);
	OK(kurma_close_file(w->client, both));
	FAILS(EBADF, 0, kurma_pread(w->client, both, data, 10, 0, &done));
	OK(kurma_close(forgetful));
}

static void a_file_longer_than_the_memory_is_read_as_it_is(world *w)
{
	kurma_options options = superuser();
	options.cache_bytes = 3 << 20;
	kurma_client *client = another_with(w, options);
	for (unsigned change = 1; change < 3; change++) {
		const unsigned char *data = bytes(8 << 20, change);
		OK(kurma_write_file(w->client, "/home/a", data, 8 << 20, 0600));
		for (int n = 0; n < 3; n++)
			CHECK(reads_as(client, "/home/a", data, 8 << 20));
	}
	OK(kurma_close(client));
}

static int all_have(const world *w, uint64_t fd, const char *content)
{
	return holds(w->client, fd, content) && has(w, "/home/a", content) && has(w, "/home/b", content);
}

static void own_changes_are_seen_however_the_file_is_named(world *w)
{
	kurma_client *c = w->client;
	make(w, "/home/a", "0123456789");
	OK(kurma_link(c, "/home/a", "/home/b"));
	uint64_t fd = opened(c, "/home/a", KURMA_READ | KURMA_WRITE);
	CHECK(all_have(w, fd, "0123456789"));
	overwrite(c, "/home/b", 1, "x");
	CHECK(all_have(w, fd, "0x23456789"));
	OK(kurma_pwrite(c, fd, "y", 1, 2));
	CHECK(all_have(w, fd, "0xy3456789"));
	OK(kurma_truncate(c, "/home/b", 4));
	CHECK(all_have(w, fd, "0xy3"));
	OK(kurma_ftruncate(c, fd, 3));
	CHECK(all_have(w, fd, "0xy"));
	kurma_copy_arg copy = copying("/home/a", "/home/c");
	OK(kurma_vsscopy(c, &copy, 1));
	overwrite(c, "/home/c", 0, "C");
	copy = copying("/home/c", "/home/b");
	copy.flags = 0;
	OK(kurma_vsscopy(c, &copy, 1));
	CHECK(all_have(w, fd, "Cxy"));
	if (!w->is_nfs)
		return;
	kurma_write_arg write = { .file = { .path = "/home/b" }, .data = "T", .length = 1 };
	kurma_steps *steps;
	OK(kurma_steps_new(&steps));
	OK(kurma_steps_write(steps, &write, 1));
	OK(kurma_transaction(c, steps));
	kurma_steps_free(steps);
	CHECK(all_have(w, fd, "Txy"));
}

/* Clients, the last of which keeps nothing, and files that one of them has open, and the last one, too. */
#define CLIENTS 3
#define OPEN 4
#define ACTS 3000

typedef struct both_open {
	int who;
	uint64_t fd, same;
} both_open;

static int is_same(const kurma_result *one, const kurma_result *other, const char *data, const char *expected, size_t done,
		   size_t wanted)
{
	return one->status == other->status && (one->status != 0 || (done == wanted && memcmp(data, expected, done) == 0));
}

static void clients_that_keep_what_they_read_read_what_is_there(world *w)
{
	kurma_options options = superuser();
	kurma_client *clients[CLIENTS];
	for (int n = 0; n < CLIENTS; n++) {
		const uint64_t memory[] = { 0, 4 << 10, KURMA_NO_CACHE };
		options.cache_bytes = memory[n];
		options.entry_timeout = n == 0 ? 600000 : 0;
		clients[n] = another_with(w, options);
	}
	kurma_client *last = clients[CLIENTS - 1];
	both_open open[OPEN] = { { 0 } };
	size_t by_path = 0, by_descriptor = 0;
	for (int act = 0; act < ACTS; act++) {
		int who = (int)random_below(CLIENTS);
		kurma_client *c = clients[who];
		const char *name = text("/home/%u", random_below(3)), *other = text("/home/%u", random_below(3));
		uint64_t offset = random_below(40);
		size_t length = 1 + random_below(60), done = 0, wanted = 0;
		both_open *it = &open[random_below(OPEN)];
		char data[64], expected[64];
		kurma_write_arg write = whole(name, 0600, text("%.*s", (int)(length / 2), "the quick brown fox jumps over the lazy dog"));
		switch (random_below(16)) {
		case 0:
			write.flags = KURMA_CREATE | (offset % 3 ? 0 : KURMA_TRUNCATE);
			write.offset = offset;
			OK(kurma_vwrite(c, &write, 1));
			break;
		case 1: (void)kurma_truncate(c, name, offset); break;
		case 2: (void)kurma_rename(c, name, other); break;
		case 3: (void)kurma_unlink(c, name); break;
		case 4: (void)kurma_link(c, name, other); break;
		case 5:
			/* Reads only, mostly: for more, nothing is delegated. */
			if (!it->fd && kurma_open(c, name, KURMA_READ | (who ? 0 : KURMA_WRITE), 0, &it->fd).status == 0) {
				it->who = who;
				it->same = opened(last, name, KURMA_READ);
			}
			break;
		case 6:
			if (it->fd)
				(void)kurma_pwrite(clients[it->who], it->fd, write.data, write.length, offset);
			break;
		case 7:
			if (it->fd) {
				OK(kurma_close_file(clients[it->who], it->fd));
				OK(kurma_close_file(last, it->same));
				it->fd = 0;
			}
			break;
		case 8:
		case 9:
		case 10:
		case 11: {
			kurma_read_arg read = { .file = { .path = name }, .offset = offset, .length = length, .data = expected };
			kurma_result there = kurma_vread(last, &read, 1);
			by_path += there.status == 0;
			for (int n = 0; n < CLIENTS - 1; n++) {
				kurma_read_arg kept = read;
				kept.data = data;
				kurma_result result = kurma_vread(clients[n], &kept, 1);
				CHECK(is_same(&result, &there, data, expected, kept.done, read.done));
				CHECK(result.status || kept.end_of_file == read.end_of_file);
			}
			break;
		}
		default:
			if (it->fd) {
				kurma_result result = kurma_pread(clients[it->who], it->fd, data, length, offset, &done);
				kurma_result there = kurma_pread(last, it->same, expected, length, offset, &wanted);
				CHECK(is_same(&result, &there, data, expected, done, wanted));
				by_descriptor++;
			}
		}
	}
	CHECK(by_path > 100 && by_descriptor > 100);
	for (int n = 0; n < CLIENTS; n++)
		OK(kurma_close(clients[n]));
}

const test_case cache_cases[] = {
	CASE(an_unchanged_file_is_read_again_in_one_round_trip_without_its_content),
	CASE(a_path_that_is_believed_costs_nothing_until_the_file_changes),
	CASE(what_another_client_has_changed_comes_in_the_same_round_trip),
	CASE(a_long_file_that_was_changed_is_read_anew_whole),
	CASE(of_many_files_those_that_were_changed_cost_one_round_trip_more),
	CASE(of_more_files_than_one_request_holds_those_that_were_changed_cost_one_round_more),
	CASE(of_many_files_that_were_changed_the_content_of_the_last_comes_once),
	CASE(a_name_that_leads_elsewhere_is_never_the_file_it_led_to),
	CASE(what_must_not_be_read_any_more_is_not_read),
	CASE(a_vector_that_changes_a_file_reads_it_as_it_is_at_that_place),
	CASE(what_is_open_for_writing_alone_is_not_read_from_memory_either),
	CASE(a_file_longer_than_the_memory_is_read_as_it_is),
	CASE(own_changes_are_seen_however_the_file_is_named),
	CASE(clients_that_keep_what_they_read_read_what_is_there),
	{ NULL, NULL },
};
