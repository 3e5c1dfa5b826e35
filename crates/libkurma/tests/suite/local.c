/* What only files of this machine have: a root that nothing leads out of, a umask, other kinds of files. */
#define _GNU_SOURCE /* mkfifo, umask */
#include "suite.h"

#include <sys/stat.h>
#include <unistd.h>

static const char *outside(const world *w, const char *path)
{
	return text("%s%s", w->place, path);
}

static void nothing_leads_out_of_the_root(world *w)
{
	const char *const paths[] = { "/../../secret",    "/home/absolute",        "/home/up",
				      "/home/top/secret", "/home/../../secret", "/home/top/../../secret" };
	make(w, "/secret", "inside");
	CHECK(symlink("/secret", outside(w, "/home/absolute")) == 0);
	CHECK(symlink("../../../../../../secret", outside(w, "/home/up")) == 0);
	CHECK(symlink("/", outside(w, "/home/top")) == 0);
	for (int n = 0; n < 6; n++)
		CHECK(has(w, paths[n], "inside"));
	kurma_write_arg write = whole(text("/home/top/..%s/../not-here", w->place), 0600, "x");
	FAILS(ENOENT, 0, kurma_vwrite(w->client, &write, 1));
}

static void the_whole_machine_is_what_everybody_sees(world *w)
{
	kurma_client *machine;
	OK(kurma_local("/", &machine));
	OK(kurma_write_file(machine, outside(w, "/home/file"), "there", 5, 0600));
	CHECK(has(w, "/home/file", "there"));
	/* A file that does not say how long it is. */
	kurma_read_arg read = reading("/proc/self/status", 0, 1 << 20);
	OK(kurma_vread(machine, &read, 1));
	CHECK(read.done > 100 && read.end_of_file);
	OK(kurma_close(machine));
}

static void new_files_have_exactly_the_permission_bits_that_were_asked_for(world *w)
{
	const uint32_t modes[] = { 0666, 0777, 07777, 02755, 0200, 0 };
	struct stat stat_;
	umask(077);
	for (int n = 0; n < 6; n++) {
		const char *file = text("/home/f%o", modes[n]), *directory = text("/home/d%o", modes[n]);
		kurma_write_arg write = whole(file, modes[n], "x");
		OK(kurma_vwrite(w->client, &write, 1));
		OK(kurma_mkdir(w->client, directory, modes[n]));
		CHECK(stat(outside(w, file), &stat_) == 0 && (stat_.st_mode & 07777) == modes[n]);
		CHECK(stat(outside(w, directory), &stat_) == 0 && (stat_.st_mode & 07777) == modes[n]);
	}
	FAILS(EINVAL, 0, kurma_mkdir(w->client, "/home/other", 010000));
}

static void what_is_no_regular_file_is_neither_read_nor_waited_for(world *w)
{
	CHECK(mkfifo(outside(w, "/home/pipe"), 0600) == 0);
	kurma_read_arg read = reading("/home/pipe", 0, 9);
	FAILS(EINVAL, 0, kurma_vread(w->client, &read, 1));
	kurma_write_arg write = whole("/home/pipe", 0600, "x");
	FAILS(EINVAL, 0, kurma_vwrite(w->client, &write, 1));
	uint64_t fd;
	FAILS(EINVAL, 0, kurma_open(w->client, "/home/pipe", KURMA_READ, 0, &fd));
	FAILS(EINVAL, 0, kurma_truncate(w->client, "/home/pipe", 0));
	read = reading("/home", 0, 9);
	FAILS(EISDIR, 0, kurma_vread(w->client, &read, 1));
	kurma_attributes stat;
	OK(kurma_stat(w->client, "/home/pipe", &stat));
	CHECK(stat.kind == KURMA_FIFO);
	OK(kurma_unlink(w->client, "/home/pipe"));
}

static int count(const kurma_entry *entry, void *opaque)
{
	CHECK(entry->attributes->present & KURMA_SIZE);
	++*(int *)opaque;
	return 0;
}

static void a_tree_deeper_than_the_longest_path_can_be_made_listed_and_removed(world *w)
{
	static char path[8300] = "/home";
	kurma_mkdir_arg directories[40];
	char *name = memset(room(202, 1), 'x', 201);
	name[0] = '/';
	for (int n = 0; n < 40; n++) {
		strcat(path, name);
		directories[n] = (kurma_mkdir_arg){ .file = AT("%s", path), .mode = 0755 };
	}
	OK(kurma_vmkdir(w->client, directories, 40));
	strcat(path, "/file");
	make(w, path, "deep");
	CHECK(has(w, path, "deep"));
	int found = 0;
	kurma_file home = AT("/home");
	kurma_result result = kurma_vlistdir(w->client, &home, 1, KURMA_SIZE, KURMA_RECURSIVE, count, &found);
	OK(result);
	CHECK(result.done == 41 && found == 41);
	OK(kurma_rm_recursive(w->client, &directories[0].file, 1, NULL, NULL));
	CHECK(!there(w, directories[0].file.path));
}

static void holes_stay_holes_in_a_copy(world *w)
{
	const uint64_t size = 64 << 20;
	make(w, "/home/a", "begin");
	kurma_write_arg write = whole("/home/a", 0, "middle");
	write.flags = 0;
	write.offset = 40 << 20;
	OK(kurma_vwrite(w->client, &write, 1));
	OK(kurma_truncate(w->client, "/home/a", size));
	kurma_copy_arg copy = { .source = { .path = "/home/a" }, .destination = { .path = "/home/b" }, .mode = 0600,
				.length = KURMA_TO_END, .flags = KURMA_CREATE };
	OK(kurma_vsscopy(w->client, &copy, 1));
	kurma_attributes a, b;
	OK(kurma_stat(w->client, "/home/a", &a));
	OK(kurma_stat(w->client, "/home/b", &b));
	CHECK(copy.done == size && b.size == size && b.space_used <= a.space_used + 8192);
	kurma_read_arg reads[] = { reading("/home/b", 0, 6), reading("/home/b", 40 << 20, 6) };
	OK(kurma_vread(w->client, reads, 2));
	CHECK(memcmp(reads[0].data, "begin", 6) == 0 && memcmp(reads[1].data, "middle", 6) == 0);
}

const test_case local_cases[] = {
	CASE(nothing_leads_out_of_the_root),
	CASE(the_whole_machine_is_what_everybody_sees),
	CASE(new_files_have_exactly_the_permission_bits_that_were_asked_for),
	CASE(what_is_no_regular_file_is_neither_read_nor_waited_for),
	CASE(a_tree_deeper_than_the_longest_path_can_be_made_listed_and_removed),
	CASE(holes_stay_holes_in_a_copy),
	{ NULL, NULL },
};
