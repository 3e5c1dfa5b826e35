/* Files that are written from front to back. */
#include "suite.h"

#include <unistd.h>

#define MIB ((size_t)1 << 20)

static uint64_t new_file(kurma_client *client, const char *path)
{
	uint64_t fd;
	OK(kurma_open(client, path, KURMA_READ | KURMA_WRITE | KURMA_CREATE, 0600, &fd));
	return fd;
}

static kurma_writer *writer_of(kurma_client *client, uint64_t fd, uint64_t offset)
{
	kurma_writer *writer = NULL;
	OK(kurma_writer_new(client, fd, offset, &writer));
	CHECK(writer != NULL);
	return writer;
}

static uint64_t position(const kurma_writer *writer)
{
	uint64_t place;
	OK(kurma_writer_position(writer, &place));
	return place;
}

/* Whether others see this. */
static int others_see(const world *w, const char *path, const unsigned char *content, size_t length)
{
	kurma_client *other = another(w);
	int same = reads_as(other, path, content, length);
	OK(kurma_close(other));
	return same;
}

static void what_is_written_in_pieces_of_any_size_is_one_file(world *w)
{
	const size_t length = 7 * MIB + 77, sizes[] = { 1, 1000, 3 * MIB, 70000, MIB, 0, 12345 };
	unsigned char *all = bytes(length, 251);
	kurma_writer *writer = writer_of(w->client, new_file(w->client, "/home/a"), 0);
	size_t done = 0, synced = 0;
	for (size_t turn = 0; done < length; turn++) {
		size_t now = sizes[turn % (sizeof sizes / sizeof *sizes)];
		now = now < length - done ? now : length - done;
		/* What was taken is the caller's again. */
		unsigned char *own = malloc(now ? now : 1);
		CHECK(own != NULL);
		memcpy(own, all + done, now);
		OK(kurma_writer_write(writer, own, now));
		memset(own, 'x', now);
		free(own);
		done += now;
		CHECK(position(writer) == done);
		if (length - done < 3 * MIB && length - done > 2 * MIB) {
			synced++;
			OK(kurma_writer_sync(writer));
			CHECK(others_see(w, "/home/a", all, done));
		}
	}
	OK(kurma_writer_close(writer));
	CHECK(synced > 0 && others_see(w, "/home/a", all, length));

	writer = writer_of(w->client, new_file(w->client, "/home/a"), 100);
	OK(kurma_writer_write(writer, "in the middle", 13));
	OK(kurma_writer_write(writer, NULL, 0));
	OK(kurma_writer_close(writer));
	memcpy(all + 100, "in the middle", 13);
	CHECK(others_see(w, "/home/a", all, length));
}

static void a_small_file_is_one_round_trip_and_a_large_one_one_for_each_piece(world *w)
{
	uint64_t fd = new_file(w->client, "/home/small"), before = trips(w);
	kurma_writer *writer = writer_of(w->client, fd, 0);
	for (int n = 0; n < 1000; n++)
		OK(kurma_writer_write(writer, "line\n", 5));
	CHECK(trips(w) == before);
	COSTS(1, kurma_writer_close(writer));
	writer = writer_of(w->client, new_file(w->client, "/home/empty"), 0);
	COSTS(1, kurma_writer_close(writer));
	fd = new_file(w->client, "/home/large");
	before = trips(w);
	writer = writer_of(w->client, fd, 0);
	const unsigned char *half = bytes(MIB / 2, 3);
	for (int n = 0; n < 140; n++)
		OK(kurma_writer_write(writer, half, MIB / 2));
	OK(kurma_writer_close(writer));
	/* Seventy pieces; what is not safe is made so after 64, and at the end; the file is closed. */
	CHECK(trips(w) - before == (w->is_nfs ? 70 + 1 + 1 + 1 : 0));
	const char *paths[] = { "/home/small", "/home/empty", "/home/large" };
	const uint64_t sizes[] = { 5000, 0, 70 * MIB };
	kurma_client *other = another(w);
	for (int n = 0; n < 3; n++) {
		kurma_attributes stat;
		OK(kurma_stat(other, paths[n], &stat));
		CHECK(stat.size == sizes[n]);
	}
	OK(kurma_close(other));
}

static kurma_writer *writer_that_cannot(const world *w, uint64_t *fd)
{
	OK(kurma_open(w->client, "/home/b", KURMA_READ, 0, fd));
	return writer_of(w->client, *fd, 0);
}

static void a_failure_is_said_once_and_that_there_was_one_ever_after(world *w)
{
	OK(kurma_close_file(w->client, new_file(w->client, "/home/b")));
	uint64_t fd;
	kurma_writer *writer = writer_that_cannot(w, &fd);
	OK(kurma_writer_write(writer, "gathered", 8));
	FAILS(EBADF, 0, kurma_writer_sync(writer));
	FAILS(EINVAL, 0, kurma_writer_sync(writer));
	FAILS(EINVAL, 0, kurma_writer_write(writer, "more", 4));
	FAILS(EINVAL, 0, kurma_writer_close(writer));

	writer = writer_that_cannot(w, &fd);
	OK(kurma_writer_write(writer, "gathered", 8));
	FAILS(EBADF, 0, kurma_writer_close(writer));
	/* It is closed all the same. */
	FAILS(EBADF, 0, kurma_close_file(w->client, fd));

	writer = writer_that_cannot(w, &fd);
	kurma_result failed;
	const unsigned char *piece = bytes(MIB, 3);
	do
		failed = kurma_writer_write(writer, piece, MIB);
	while (failed.status == 0);
	CHECK(failed.status == EBADF && failed.index == 0);
	FAILS(EINVAL, 0, kurma_writer_close(writer));

	writer = writer_of(w->client, new_file(w->client, "/home/c"), INT64_MAX - 1);
	FAILS(EINVAL, 0, kurma_writer_write(writer, "too far", 7));
	OK(kurma_writer_close(writer));

	/* What makes no sense. */
	writer = NULL;
	fd = new_file(w->client, "/home/c");
	FAILS(EINVAL, KURMA_NO_INDEX, kurma_writer_new(NULL, fd, 0, &writer));
	FAILS(EINVAL, KURMA_NO_INDEX, kurma_writer_new(w->client, fd, 0, NULL));
	FAILS(EBADF, KURMA_NO_INDEX, kurma_writer_new(w->client, 0, 0, &writer));
	CHECK(writer == NULL);
	FAILS(EINVAL, KURMA_NO_INDEX, kurma_writer_write(NULL, "x", 1));
	FAILS(EINVAL, KURMA_NO_INDEX, kurma_writer_sync(NULL));
	FAILS(EINVAL, KURMA_NO_INDEX, kurma_writer_position(NULL, &fd));
	OK(kurma_writer_close(NULL));
	writer = writer_of(w->client, fd, 3);
	FAILS(EINVAL, KURMA_NO_INDEX, kurma_writer_write(writer, NULL, 1));
	FAILS(EINVAL, KURMA_NO_INDEX, kurma_writer_write(writer, "x", SIZE_MAX));
	FAILS(EINVAL, KURMA_NO_INDEX, kurma_writer_position(writer, NULL));
	CHECK(position(writer) == 3);
	OK(kurma_writer_close(writer));
}

#define THREADS 16
#define RECORD 40000
#define ROUNDS 20

typedef struct recorder {
	kurma_writer *writer;
	int number;
} recorder;

static void *record(void *opaque)
{
	const recorder *me = opaque;
	unsigned char data[RECORD];
	memset(data, me->number, sizeof data);
	for (int n = 0; n < ROUNDS; n++) {
		OK(kurma_writer_write(me->writer, data, sizeof data));
		if (n == me->number)
			OK(kurma_writer_sync(me->writer));
		CHECK(position(me->writer) % RECORD == 0);
	}
	return NULL;
}

static void what_many_threads_write_is_all_there_and_whole(world *w)
{
	recorder recorders[THREADS];
	kurma_writer *writer = writer_of(w->client, new_file(w->client, "/home/log"), 0);
	for (int n = 0; n < THREADS; n++)
		recorders[n] = (recorder){ .writer = writer, .number = n };
	at_once(THREADS, record, recorders, sizeof *recorders);
	OK(kurma_writer_close(writer));
	unsigned char *log;
	size_t length;
	int seen[THREADS] = { 0 };
	OK(kurma_read_file(w->client, "/home/log", (void **)&log, &length));
	CHECK(length == (size_t)THREADS * ROUNDS * RECORD);
	for (size_t at = 0; at < length; at += RECORD) {
		CHECK(log[at] < THREADS && memcmp(log + at, log + at + 1, RECORD - 1) == 0);
		seen[log[at]]++;
	}
	for (int n = 0; n < THREADS; n++)
		CHECK(seen[n] == ROUNDS);
	free(log);
}

static void a_client_that_is_closed_leaves_its_writers_nothing_but_to_be_closed(world *w)
{
	kurma_client *gone = another(w);
	kurma_writer *idle = writer_of(gone, new_file(gone, "/home/idle"), 0);
	kurma_writer *busy = writer_of(gone, new_file(gone, "/home/busy"), 0);
	OK(kurma_writer_write(busy, "safe", 4));
	OK(kurma_writer_sync(busy));
	OK(kurma_writer_write(busy, "gathered", 8));
	OK(kurma_close(gone));
	kurma_result failed = kurma_writer_sync(busy);
	CHECK(failed.status != 0 && failed.message[0] != 0);
	FAILS(EINVAL, 0, kurma_writer_write(busy, "more", 4));
	CHECK(position(busy) == 12);
	FAILS(EINVAL, 0, kurma_writer_close(busy));
	failed = kurma_writer_close(idle);
	CHECK(failed.status != 0 && failed.message[0] != 0);
	CHECK(has(w, "/home/busy", "safe") && has(w, "/home/idle", ""));
}

static void what_a_server_loses_in_a_restart_is_written_again(world *w)
{
	const size_t length = 5 * MIB + 5;
	const unsigned char *all = bytes(length, 251);
	kurma_client *other = another(w);
	kurma_writer *writer = writer_of(w->client, new_file(w->client, "/home/e"), 0);
	OK(kurma_writer_write(writer, all, 3 * MIB));
	kurma_attributes stat;
	do
		OK(kurma_stat(other, "/home/e", &stat));
	while (stat.size != 3 * MIB);
	/* As if it had never been written down. */
	OK(kurma_truncate(other, "/home/e", 7));
	until_it_has_happened();
	OK(kurma_writer_write(writer, all + 3 * MIB, length - 3 * MIB));
	OK(kurma_writer_close(writer));
	CHECK(others_see(w, "/home/e", all, length));
	OK(kurma_close(other));
}

/* The server stays, and knows what it has done; nor does the program get a signal. */
static void a_line_that_breaks_again_and_again_loses_nothing(world *w)
{
	const size_t length = 24 * MIB;
	const unsigned char *all = bytes(length, 251);
	const char *path = text("/home/of-%ld", (long)getpid());
	kurma_writer *writer = writer_of(w->client, new_file(w->client, path), 0);
	for (size_t done = 0; done < length; done += MIB)
		OK(kurma_writer_write(writer, all + done, MIB));
	OK(kurma_writer_close(writer));
	CHECK(others_see(w, path, all, length));
}

const test_case writer_cases[] = {
	CASE(what_is_written_in_pieces_of_any_size_is_one_file),
	CASE(a_small_file_is_one_round_trip_and_a_large_one_one_for_each_piece),
	CASE(a_failure_is_said_once_and_that_there_was_one_ever_after),
	CASE(what_many_threads_write_is_all_there_and_whole),
	CASE(a_client_that_is_closed_leaves_its_writers_nothing_but_to_be_closed),
	CASE(what_a_server_loses_in_a_restart_is_written_again),
	CASE(a_line_that_breaks_again_and_again_loses_nothing),
	{ NULL, NULL },
};
