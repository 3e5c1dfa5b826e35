/* One file at a time, as in POSIX. */
#include "suite.h"

static int read_is(world *w, uint64_t fd, size_t length, const char *expected)
{
	char data[128];
	size_t done = 7777;
	CHECK(length <= sizeof data);
	OK(kurma_read(w->client, fd, data, length, &done));
	return done == strlen(expected) && memcmp(data, expected, done) == 0;
}

static void a_posix_program_runs_after_renaming_calls(world *w)
{
	kurma_client *c = w->client;
	uint64_t file, place;
	char data[100];
	size_t done;
	kurma_attributes stat;
	OK(kurma_mkdir(c, "/home/d", 0755));
	OK(kurma_open(c, "/home/d/f", KURMA_READ | KURMA_WRITE | KURMA_CREATE | KURMA_TRUNCATE, 0640, &file));
	OK(kurma_write(c, file, "hello ", 6));
	OK(kurma_write(c, file, "world", 5));
	OK(kurma_fsync(c, file));
	OK(kurma_lseek(c, file, 4, SEEK_SET, &place));
	CHECK(place == 4);
	CHECK(read_is(w, file, 3, "o w") && read_is(w, file, 99, "orld") && read_is(w, file, 99, ""));
	OK(kurma_pread(c, file, data, 5, 0, &done));
	CHECK(done == 5 && memcmp(data, "hello", 5) == 0);
	OK(kurma_lseek(c, file, 0, SEEK_CUR, &place));
	CHECK(place == 11);
	OK(kurma_lseek(c, file, -1, SEEK_END, NULL));
	OK(kurma_pwrite(c, file, "J", 1, 0));
	OK(kurma_pwrite(c, file, "!", 1, KURMA_APPEND));
	CHECK(read_is(w, file, 99, "d!"));
	FAILS(EINVAL, 0, kurma_lseek(c, file, -99, SEEK_CUR, NULL));
	OK(kurma_fstat(c, file, &stat));
	CHECK(stat.size == 12);
	OK(kurma_ftruncate(c, file, 5));
	OK(kurma_close_file(c, file));
	FAILS(EBADF, 0, kurma_read(c, file, data, 1, &done));

	OK(kurma_symlink(c, "f", "/home/d/s"));
	OK(kurma_readlink(c, "/home/d/s", data, sizeof data, NULL));
	CHECK(strcmp(data, "f") == 0);
	OK(kurma_lstat(c, "/home/d/s", &stat));
	CHECK(stat.kind == KURMA_SYMBOLIC_LINK);
	OK(kurma_stat(c, "/home/d/s", &stat));
	CHECK(stat.size == 5);
	OK(kurma_link(c, "/home/d/f", "/home/d/g"));
	OK(kurma_stat(c, "/home/d/f", &stat));
	CHECK(stat.links == 2);
	OK(kurma_rename(c, "/home/d/g", "/home/d/h"));
	CHECK(!there(w, "/home/d/g"));
	OK(kurma_chmod(c, "/home/d/s", 0600));
	const kurma_time time = { .seconds = 1234, .nanoseconds = 5000 };
	OK(kurma_utimens(c, "/home/d/f", &time, &time));
	OK(kurma_truncate(c, "/home/d/f", 2));
	OK(kurma_utimens(c, "/home/d/f", NULL, &time));
	OK(kurma_chown(c, "/home/d/f", w->user, UINT32_MAX));
	OK(kurma_stat(c, "/home/d/f", &stat));
	CHECK(stat.mode == 0600 && stat.size == 2 && stat.uid == w->user);
	CHECK(stat.modified.seconds == 1234 && stat.modified.nanoseconds == 5000);

	int names = 0;
	kurma_file directory = AT("/home/d");
	OK(kurma_vlistdir(c, &directory, 1, 0, 0, count_entries, &names));
	CHECK(names == 3);
	OK(kurma_unlink(c, "/home/d/f"));
	OK(kurma_unlink(c, "/home/d/h"));
	OK(kurma_unlink(c, "/home/d/s"));
	OK(kurma_rmdir(c, "/home/d"));
	CHECK(!there(w, "/home/d"));
}

static void calls_fail_as_posix_says(world *w)
{
	kurma_client *c = w->client;
	uint64_t fd = 99;
	kurma_attributes stat;
	make_directory(w, "/home/d");
	make(w, "/home/f", "");
	FAILS(EISDIR, 0, kurma_unlink(c, "/home/d"));
	FAILS(ENOTDIR, 0, kurma_rmdir(c, "/home/f"));
	FAILS(ENOENT, 0, kurma_unlink(c, "/home/none"));
	FAILS(EEXIST, 0, kurma_mkdir(c, "/home/f", 0755));
	FAILS(ENOENT, 0, kurma_truncate(c, "/home/none", 0));
	FAILS(ENOENT, 0, kurma_stat(c, "/home/none", &stat));
	FAILS(EEXIST, 0, kurma_open(c, "/home/f", KURMA_WRITE | KURMA_CREATE | KURMA_EXCLUSIVE, 0644, &fd));
	FAILS(EBADF, 0, kurma_fsync(c, 12345));
	CHECK(fd == 99 && there(w, "/home/d") && there(w, "/home/f"));
}

typedef struct reader {
	world *w;
	uint64_t fd;
	unsigned char got[8];
} reader;

static void *read_eight(void *opaque)
{
	reader *r = opaque;
	size_t done;
	OK(kurma_read(r->w->client, r->fd, r->got, 8, &done));
	CHECK(done == 8);
	return NULL;
}

static void readers_of_one_descriptor_never_get_the_same_bytes(world *w)
{
	reader readers[32];
	int seen[256] = { 0 };
	OK(kurma_write_file(w->client, "/home/f", bytes(256, 1), 256, 0644));
	uint64_t fd;
	OK(kurma_open(w->client, "/home/f", KURMA_READ, 0, &fd));
	for (int n = 0; n < 32; n++)
		readers[n] = (reader){ .w = w, .fd = fd };
	at_once(32, read_eight, readers, sizeof *readers);
	for (int n = 0; n < 32; n++)
		for (int at = 0; at < 8; at++)
			CHECK(seen[readers[n].got[at]]++ == 0);
}

static void whole_files_are_read_and_written(world *w)
{
	void *data = NULL;
	size_t length = 99;
	OK(kurma_write_file(w->client, "/home/f", "", 0, 0600));
	OK(kurma_read_file(w->client, "/home/f", &data, &length));
	CHECK(data != NULL && length == 0);
	free(data);
	OK(kurma_write_file(w->client, "/home/f", bytes(5000000, 3), 5000000, 0600));
	COSTS(1, kurma_write_file(w->client, "/home/g", "small", 5, 0640));
	OK(kurma_read_file(w->client, "/home/f", &data, &length));
	CHECK(length == 5000000 && memcmp(data, bytes(length, 3), length) == 0);
	free(data);
	kurma_attributes stat;
	OK(kurma_stat(w->client, "/home/g", &stat));
	CHECK(stat.mode == 0640);
	data = NULL;
	FAILS(ENOENT, 0, kurma_read_file(w->client, "/home/none", &data, &length));
	CHECK(data == NULL);
}

const test_case scalar_cases[] = {
	CASE(a_posix_program_runs_after_renaming_calls),
	CASE(calls_fail_as_posix_says),
	CASE(readers_of_one_descriptor_never_get_the_same_bytes),
	CASE(whole_files_are_read_and_written),
	{ NULL, NULL },
};
