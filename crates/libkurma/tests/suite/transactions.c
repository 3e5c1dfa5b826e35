/* All or nothing. On this machine there is no such thing, which is said. */
#include "suite.h"

static void steps_of_all_kinds_are_done_at_once_in_one_round_trip(world *w)
{
	make(w, "/home/old", "old");
	kurma_mkdir_arg directory = { .file = { .path = "/home/d" }, .mode = 0755 };
	kurma_write_arg writes[] = { whole("/home/d/a", 0600, "content"), whole("/home/d/a", 0, " and more") };
	writes[1].flags = 0;
	writes[1].offset = KURMA_APPEND;
	kurma_read_arg read = reading("/home/d/a", 3, 100);
	kurma_pair rename = { AT("/home/d"), AT("/home/e") };
	kurma_copy_arg copy = { .source = { .path = "/home/e/a" }, .destination = { .path = "/home/e/b" }, .mode = 0600,
				.length = KURMA_TO_END, .flags = KURMA_CREATE | KURMA_TRUNCATE };
	kurma_symlink_arg symlink = { AT("/home/e/link"), "b" };
	kurma_pair link = { AT("/home/e/a"), AT("/home/e/c") };
	kurma_setattr_arg set = { .file = { .path = "/home/e/a" }, .attributes = { .set = KURMA_MODE, .mode = 0640 } };
	kurma_getattr_arg get = { .file = { .path = "/home/e/c" }, .wanted = KURMA_MODE | KURMA_LINKS };
	kurma_file gone = AT("/home/old");
	kurma_open_arg open = { .file = { .path = "/home/e/b" }, .flags = KURMA_READ | KURMA_WRITE };
	kurma_steps *steps;
	OK(kurma_steps_new(&steps));
	OK(kurma_steps_mkdir(steps, &directory, 1));
	OK(kurma_steps_write(steps, writes, 2));
	OK(kurma_steps_read(steps, &read, 1));
	OK(kurma_steps_rename(steps, &rename, 1));
	OK(kurma_steps_sscopy(steps, &copy, 1));
	OK(kurma_steps_symlink(steps, &symlink, 1));
	OK(kurma_steps_hardlink(steps, &link, 1));
	OK(kurma_steps_setattrs(steps, &set, 1));
	OK(kurma_steps_getattrs(steps, &get, 1));
	OK(kurma_steps_remove(steps, &gone, 1));
	OK(kurma_steps_open(steps, &open, 1));
	if (!w->is_nfs) {
		kurma_limits limits = { 1, 1 };
		OK(kurma_transaction_limits(w->client, &limits));
		CHECK(limits.operations == 0 && limits.bytes == 0);
		FAILS(EOPNOTSUPP, KURMA_NO_INDEX, kurma_transaction(w->client, steps));
		CHECK(!there(w, "/home/d") && there(w, "/home/old"));
		/* Nor at once, but all the same. */
		OK(kurma_execute(w->client, steps));
	} else {
		COSTS(1, kurma_transaction(w->client, steps));
	}
	kurma_steps_free(steps);
	CHECK(writes[0].done == 7 && is(&read, "tent and more") && copy.done == 16);
	CHECK(get.attributes.mode == 0640 && get.attributes.links == 2);
	OK(kurma_pwrite(w->client, open.fd, "CON", 3, 0));
	OK(kurma_close_file(w->client, open.fd));
	CHECK(has(w, "/home/e/link", "CONtent and more"));
}

static int add(const kurma_entry *entry, void *opaque)
{
	uint64_t *sum = opaque;
	for (const char *at = entry->name; *at; at++)
		*sum = *sum * 31 + (unsigned char)*at;
	*sum = *sum * 31 + entry->attributes->size * 7 + entry->attributes->links;
	return 0;
}

/* A number that another tree would not have. */
static uint64_t state(world *w)
{
	uint64_t sum = 1;
	kurma_file home = AT("/home");
	OK(kurma_vlistdir(w->client, &home, 1, KURMA_SIZE | KURMA_LINKS, KURMA_RECURSIVE, add, &sum));
	return sum;
}

static void wherever_a_step_fails_nothing_is_done(world *w)
{
	make(w, "/home/here", "as it was");
	uint64_t before = state(w);
	kurma_mkdir_arg directory = { .file = { .path = "/home/d" }, .mode = 0755 };
	kurma_write_arg writes[] = { whole("/home/d/a", 0600, text("%1000s", "")), whole("/home/here", 0600, "overwritten") };
	kurma_pair link = { AT("/home/here"), AT("/home/d/link") }, rename = { AT("/home/here"), AT("/home/d/moved") };
	kurma_file gone = AT("/home/d/a"), none = AT("/home/none");
	for (int bad = 0; bad <= 6; bad++) {
		kurma_steps *steps;
		OK(kurma_steps_new(&steps));
		for (int n = 0; n <= 6; n++) {
			if (n == bad)
				OK(kurma_steps_remove(steps, &none, 1));
			switch (n) {
			case 0: OK(kurma_steps_mkdir(steps, &directory, 1)); break;
			case 1: OK(kurma_steps_write(steps, &writes[0], 1)); break;
			case 2: OK(kurma_steps_write(steps, &writes[1], 1)); break;
			case 3: OK(kurma_steps_hardlink(steps, &link, 1)); break;
			case 4: OK(kurma_steps_rename(steps, &rename, 1)); break;
			case 5: OK(kurma_steps_remove(steps, &gone, 1)); break;
			}
		}
		writes[0].done = writes[1].done = 0;
		kurma_result result = kurma_transaction(w->client, steps);
		kurma_steps_free(steps);
		CHECK(result.status == ENOENT && result.index == (size_t)bad && result.done == 0 && result.unknown == 0);
		CHECK(writes[0].done == 0 && writes[1].done == 0);
		CHECK(state(w) == before && has(w, "/home/here", "as it was"));
	}
}

static void what_is_too_much_is_refused_before_anything_is_sent(world *w)
{
	kurma_limits limits;
	OK(kurma_transaction_limits(w->client, &limits));
	CHECK(limits.operations > 0 && limits.bytes > 0);
	kurma_mkdir_arg directory = { .file = { .path = "/home/d" }, .mode = 0755 };
	kurma_write_arg write = whole("/home/d/a", 0600, "");
	write.length = limits.bytes + 1;
	write.data = room(write.length, 1);
	kurma_steps *steps;
	OK(kurma_steps_new(&steps));
	OK(kurma_steps_mkdir(steps, &directory, 1));
	OK(kurma_steps_write(steps, &write, 1));
	uint64_t before = trips(w);
	FAILS(E2BIG, KURMA_NO_INDEX, kurma_transaction(w->client, steps));
	CHECK(trips(w) == before && !there(w, "/home/d"));
	kurma_steps_free(steps);
	kurma_mkdir_arg *many = room(limits.operations, sizeof *many);
	for (uint64_t n = 0; n < limits.operations; n++)
		many[n] = (kurma_mkdir_arg){ .file = AT("/home/%d", (int)n), .mode = 0755 };
	OK(kurma_steps_new(&steps));
	OK(kurma_steps_mkdir(steps, many, limits.operations));
	FAILS(E2BIG, KURMA_NO_INDEX, kurma_transaction(w->client, steps));
	CHECK(!there(w, "/home/0"));
	kurma_steps_free(steps);
}

static void large_writes_and_links_on_the_way_are_part_of_a_transaction(world *w)
{
	make_directory(w, "/home/real");
	OK(kurma_symlink(w->client, "real", "/home/link"));
	OK(kurma_symlink(w->client, "data", "/home/real/last"));
	kurma_write_arg write = whole("/home/link/data", 0600, "");
	write.length = 3000000;
	write.data = bytes(write.length, 5);
	kurma_getattr_arg get = { .file = { .path = "/home/real/data" }, .wanted = KURMA_SIZE };
	kurma_steps *steps;
	OK(kurma_steps_new(&steps));
	OK(kurma_steps_write(steps, &write, 1));
	OK(kurma_steps_getattrs(steps, &get, 1));
	OK(kurma_transaction(w->client, steps));
	kurma_steps_free(steps);
	CHECK(write.done == 3000000 && get.attributes.size == 3000000);
	void *data;
	size_t length;
	OK(kurma_read_file(w->client, "/home/real/last", &data, &length));
	CHECK(length == 3000000 && memcmp(data, write.data, length) == 0);
	free(data);
}

const test_case transaction_cases[] = {
	CASE(steps_of_all_kinds_are_done_at_once_in_one_round_trip),
	CASE(wherever_a_step_fails_nothing_is_done),
	CASE(what_is_too_much_is_refused_before_anything_is_sent),
	CASE(large_writes_and_links_on_the_way_are_part_of_a_transaction),
	{ NULL, NULL },
};
