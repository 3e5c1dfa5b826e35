/* Symbolic links on the way. */
#include "suite.h"

static void fill(world *w)
{
	const char *const links[][2] = {
		{ "real/deep", "/home/short" },         { "/home/real", "/home/absolute" }, { "../..", "/home/real/deep/up" },
		{ "short/content", "/home/file" },      { "loop", "/home/loop" },
	};
	make_directory(w, "/home/real");
	make_directory(w, "/home/real/deep");
	for (int n = 0; n < 5; n++)
		OK(kurma_symlink(w->client, links[n][0], links[n][1]));
	make(w, "/home/real/deep/content", "found");
}

static int count(const kurma_entry *entry, void *opaque)
{
	CHECK(strlen(entry->name) == entry->name_length);
	++*(int *)opaque;
	return 0;
}

static void links_lead_on_wherever_they_are_in_a_path(world *w)
{
	const char *const paths[] = {
		"/home/short/content",
		"/home/absolute/deep/content",
		"/home/file",
		"/home/short/up/short/content",
		"/home/short/../deep/content",
		"/home/short/../../../home/file",
		"/../home/absolute/../../../../home/file",
		"/home/real/deep/content",
	};
	fill(w);
	kurma_read_arg reads[8];
	for (int n = 0; n < 8; n++)
		reads[n] = reading(paths[n], 0, 9);
	OK(kurma_vread(w->client, reads, 8));
	for (int n = 0; n < 8; n++)
		CHECK(is(&reads[n], "found"));
	make(w, "/home/short/new", "new");
	OK(kurma_rename(w->client, "/home/short/new", "/home/absolute/new"));
	make_directory(w, "/home/short/directory");
	CHECK(there(w, "/home/real/new") && there(w, "/home/real/deep/directory"));
	int names = 0;
	kurma_file directory = AT("/home/short");
	OK(kurma_vlistdir(w->client, &directory, 1, 0, 0, count, &names));
	CHECK(names == 3);
}

static void a_link_itself_is_what_is_removed_and_renamed(world *w)
{
	char where[64];
	size_t length;
	fill(w);
	OK(kurma_rename(w->client, "/home/file", "/home/other"));
	OK(kurma_readlink(w->client, "/home/other", where, sizeof where, &length));
	CHECK(strcmp(where, "short/content") == 0 && length == 13);
	kurma_file gone[] = { AT("/home/other"), AT("/home/short") };
	OK(kurma_vremove(w->client, gone, 2));
	CHECK(there(w, "/home/real/deep/content"));
}

static void links_that_lead_nowhere_or_round_and_round_are_errors(world *w)
{
	fill(w);
	kurma_read_arg loop = reading("/home/loop", 0, 9);
	FAILS(ELOOP, 0, kurma_vread(w->client, &loop, 1));
	kurma_open_arg open = { .file = { .path = "/home/file" }, .flags = KURMA_READ | KURMA_NOFOLLOW };
	FAILS(ELOOP, 0, kurma_vopen(w->client, &open, 1));
	kurma_read_arg link = reading("/home/file", 0, 9);
	link.flags = KURMA_NOFOLLOW;
	FAILS(ELOOP, 0, kurma_vread(w->client, &link, 1));
	kurma_write_arg write = whole("/home/file", 0600, "x");
	write.flags |= KURMA_NOFOLLOW;
	CHECK(kurma_vwrite(w->client, &write, 1).status != 0);
	CHECK(has(w, "/home/real/deep/content", "found"));
	kurma_read_arg below = reading("/home/real/deep/content/x", 0, 9);
	FAILS(ENOTDIR, 0, kurma_vread(w->client, &below, 1));
}

static void a_link_is_in_the_way_of_what_has_to_be_new_wherever_it_leads(world *w)
{
	const char *const paths[] = { "/home/nowhere", "/home/file" };
	fill(w);
	OK(kurma_symlink(w->client, "missing", "/home/nowhere"));
	for (int n = 0; n < 2; n++) {
		uint64_t fd;
		FAILS(EEXIST, 0, kurma_open(w->client, paths[n], KURMA_READ | KURMA_CREATE | KURMA_EXCLUSIVE, 0600, &fd));
		kurma_write_arg write = whole(paths[n], 0600, "new");
		write.flags = KURMA_CREATE | KURMA_EXCLUSIVE;
		FAILS(EEXIST, 0, kurma_vwrite(w->client, &write, 1));
	}
	CHECK(!there(w, "/home/missing"));
}

static void a_link_is_followed_before_what_comes_after_is_done(world *w)
{
	fill(w);
	kurma_getattr_arg get = { .file = { .path = "/home/file" }, .wanted = KURMA_SIZE };
	kurma_file gone[] = { AT("/home/file"), AT("/home/real/deep/content") };
	kurma_steps *steps;
	OK(kurma_steps_new(&steps));
	OK(kurma_steps_getattrs(steps, &get, 1));
	OK(kurma_steps_remove(steps, gone, 2));
	OK(kurma_execute(w->client, steps));
	kurma_steps_free(steps);
	CHECK(get.attributes.size == 5 && !there(w, "/home/real/deep/content"));
}

const test_case link_cases[] = {
	CASE(links_lead_on_wherever_they_are_in_a_path),
	CASE(a_link_itself_is_what_is_removed_and_renamed),
	CASE(links_that_lead_nowhere_or_round_and_round_are_errors),
	CASE(a_link_is_in_the_way_of_what_has_to_be_new_wherever_it_leads),
	CASE(a_link_is_followed_before_what_comes_after_is_done),
	{ NULL, NULL },
};
