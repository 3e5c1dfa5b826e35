/* Making, linking, renaming and removing. */
#include "suite.h"

static kurma_mkdir_arg directory(const char *path)
{
	return (kurma_mkdir_arg){ .file = { .path = path }, .mode = 0755 };
}

static void a_tree_is_made_in_one_round_trip(world *w)
{
	kurma_mkdir_arg tree[] = { directory("/home/a"), directory("/home/a/b"), directory("/home/a/b/c"),
				   directory("/home/a/d"), directory("/home/e") };
	uint64_t before = operations(w);
	COSTS(1, kurma_vmkdir(w->client, tree, 5));
	/* PUTROOTFH LOOKUP CREATE, CREATE, CREATE, up twice and CREATE, up twice and CREATE. */
	CHECK(operations(w) - before == (w->is_nfs ? 11 : 0));
	FAILS(EEXIST, 0, kurma_vmkdir(w->client, tree, 5));
}

static void the_next_directory_is_reached_from_the_one_before(world *w)
{
	const char *deep = "/home/2/3/4/5/6/7";
	OK(kurma_ensure_directory(w->client, AT("%s/a", deep), 0755));
	OK(kurma_mkdir(w->client, text("%s/b", deep), 0755));
	kurma_file both[] = { AT("%s/a", deep), AT("%s/b", deep) };
	int entries = 0;
	uint64_t before = operations(w);
	OK(kurma_vlistdir(w->client, both, 2, 0, 0, count_entries, &entries));
	/* PUTROOTFH, 8 LOOKUPs, READDIR; LOOKUPP, LOOKUP, READDIR. */
	CHECK(operations(w) - before == 13 && entries == 0);
}

static void a_hundred_links_are_made_and_read_in_one_round_trip_each(world *w)
{
	kurma_symlink_arg make_links[100];
	kurma_readlink_arg read_links[100];
	kurma_pair names[100];
	char texts[100][8];
	make(w, "/home/file", "x");
	for (int n = 0; n < 100; n++) {
		make_links[n] = (kurma_symlink_arg){ AT("/home/link-%d", n), text("to/%d", n) };
		read_links[n] = (kurma_readlink_arg){ .file = make_links[n].file, .text = texts[n], .size = sizeof texts[n] };
		names[n] = (kurma_pair){ AT("/home/file"), AT("/home/hard-%d", n) };
	}
	COSTS(1, kurma_vsymlink(w->client, make_links, 100));
	COSTS(1, kurma_vreadlink(w->client, read_links, 100));
	CHECK(strcmp(texts[99], "to/99") == 0 && read_links[99].length == 5);
	COSTS(1, kurma_vhardlink(w->client, names, 100));
	kurma_attributes attributes;
	OK(kurma_stat(w->client, "/home/hard-7", &attributes));
	CHECK(attributes.links == 101);
}

static void a_hundred_files_are_renamed_across_directories_in_one_round_trip(world *w)
{
	make_directory(w, "/home/a");
	make_directory(w, "/home/b");
	kurma_write_arg writes[100];
	kurma_pair renames[100];
	for (int n = 0; n < 100; n++) {
		writes[n] = whole(text("/home/a/%d", n), 0600, "");
		renames[n] = (kurma_pair){ AT("/home/a/%d", n), AT("/home/b/%d", n) };
	}
	OK(kurma_vwrite(w->client, writes, 100));
	COSTS(1, kurma_vrename(w->client, renames, 100));
	CHECK(there(w, "/home/b/99") && !there(w, "/home/a/99"));
}

static void two_hundred_objects_are_removed_in_one_round_trip_and_a_full_directory_is_not(world *w)
{
	kurma_write_arg writes[200];
	kurma_file files[200];
	for (int n = 0; n < 200; n++) {
		writes[n] = whole(text("/home/%d", n), 0600, "");
		files[n] = writes[n].file;
	}
	OK(kurma_vwrite(w->client, writes, 200));
	COSTS(1, kurma_vremove(w->client, files, 200));
	make_directory(w, "/home/full");
	make(w, "/home/one", "");
	make(w, "/home/full/two", "");
	kurma_file gone[] = { AT("/home/one"), AT("/home/full"), AT("/home/full/two") };
	FAILS(ENOTEMPTY, 1, kurma_vremove(w->client, gone, 3));
	CHECK(!there(w, "/home/one") && there(w, "/home/full/two"));
}

static void a_thousand_elements_are_four_round_trips(world *w)
{
	kurma_mkdir_arg *many = room(1000, sizeof *many);
	for (int n = 0; n < 1000; n++)
		many[n] = directory(text("/home/%d", n));
	COSTS(4, kurma_vmkdir(w->client, many, 1000));
}

static void names_that_moved_are_not_mistaken_for_what_they_were(world *w)
{
	kurma_mkdir_arg make_a = directory("/home/a");
	kurma_write_arg old[] = { whole("/home/a/old-1", 0600, "old"), whole("/home/a/old-2", 0600, "old") };
	kurma_pair move = { AT("/home/a"), AT("/home/b") };
	kurma_write_arg new[] = { whole("/home/a/new-1", 0600, "new"), whole("/home/a/new-2", 0600, "new") };
	kurma_pair moves[] = { { AT("/home/a/new-2"), AT("/home/b/new-2") }, { AT("/home/a/new-1"), AT("/home/b/new-1") } };
	kurma_file gone = AT("/home/a");
	kurma_steps *steps;
	OK(kurma_steps_new(&steps));
	OK(kurma_steps_mkdir(steps, &make_a, 1));
	OK(kurma_steps_write(steps, old, 2));
	OK(kurma_steps_rename(steps, &move, 1));
	OK(kurma_steps_mkdir(steps, &make_a, 1));
	OK(kurma_steps_write(steps, new, 2));
	OK(kurma_steps_rename(steps, moves, 2));
	OK(kurma_steps_remove(steps, &gone, 1));
	COSTS(1, kurma_execute(w->client, steps));
	kurma_steps_free(steps);
	CHECK(has(w, "/home/b/old-1", "old") && has(w, "/home/b/old-2", "old"));
	CHECK(has(w, "/home/b/new-1", "new") && has(w, "/home/b/new-2", "new"));
}

const test_case name_cases[] = {
	CASE(a_tree_is_made_in_one_round_trip),
	CASE(the_next_directory_is_reached_from_the_one_before),
	CASE(a_hundred_links_are_made_and_read_in_one_round_trip_each),
	CASE(a_hundred_files_are_renamed_across_directories_in_one_round_trip),
	CASE(two_hundred_objects_are_removed_in_one_round_trip_and_a_full_directory_is_not),
	CASE(a_thousand_elements_are_four_round_trips),
	CASE(names_that_moved_are_not_mistaken_for_what_they_were),
	{ NULL, NULL },
};
