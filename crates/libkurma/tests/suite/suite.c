/* Runs one case: suite CASE nfs|local PLACE. Without arguments it lists them. */
#define _DEFAULT_SOURCE /* _exit, geteuid */
#include "suite.h"

#include <pthread.h>
#include <stdarg.h>
#include <unistd.h>

static const test_case *const all[] = {
	data_cases,    descriptor_cases, name_cases,        attribute_cases, link_cases,    scalar_cases, listing_cases,
	tree_cases,    copy_cases,       transaction_cases, thread_cases,    refusal_cases, server_cases,
	local_cases,   both_cases,       writer_cases,      cache_cases,     delegation_cases, readahead_cases,
	atomic_cases,  restart_cases,    full_cases,
};

static void *kept[100000];
static size_t kept_count;
static pthread_mutex_t kept_lock = PTHREAD_MUTEX_INITIALIZER;

static void *keep(void *memory)
{
	CHECK(memory != NULL);
	pthread_mutex_lock(&kept_lock);
	CHECK(kept_count < sizeof kept / sizeof *kept);
	kept[kept_count++] = memory;
	pthread_mutex_unlock(&kept_lock);
	return memory;
}

_Noreturn void die(const char *file, int line, const char *what, const kurma_result *result)
{
	fprintf(stderr, "%s:%d: %s\n", file, line, what);
	if (result)
		fprintf(stderr, "status %d, done %zu, index %zd, unknown %zu: %s\n", result->status, result->done,
			(ssize_t)result->index, result->unknown, kurma_strerror(result));
	_exit(1);
}

kurma_client *another(const world *w)
{
	kurma_client *client = NULL;
	if (w->is_nfs)
		return another_with(w, superuser());
	OK(kurma_local(w->place, &client));
	CHECK(client != NULL);
	return client;
}

kurma_options superuser(void)
{
	kurma_options options;
	kurma_options_init(&options, sizeof options);
	options.uid = options.gid = 0;
	return options;
}

kurma_client *another_with(const world *w, kurma_options options)
{
	kurma_client *client = NULL;
	OK(kurma_connect(text("nfs://%s", w->place), &options, &client));
	CHECK(client != NULL);
	return client;
}

const char *text(const char *format, ...)
{
	va_list arguments;
	char buffer[8192];
	va_start(arguments, format);
	int length = vsnprintf(buffer, sizeof buffer, format, arguments);
	va_end(arguments);
	CHECK(length >= 0 && (size_t)length < sizeof buffer);
	return memcpy(keep(malloc((size_t)length + 1)), buffer, (size_t)length + 1);
}

void *room(size_t count, size_t size)
{
	return keep(calloc(count ? count : 1, size ? size : 1));
}

kurma_file path_file(const char *path)
{
	return (kurma_file){ .path = path };
}

kurma_file open_file(uint64_t fd)
{
	return (kurma_file){ .fd = fd };
}

kurma_statistics so_far(const kurma_client *client)
{
	kurma_statistics now;
	OK(kurma_get_statistics(client, &now));
	return now;
}

kurma_statistics since(const kurma_client *client, kurma_statistics then)
{
	kurma_statistics now = so_far(client);
	now.round_trips -= then.round_trips;
	now.operations -= then.operations;
	now.bytes_out -= then.bytes_out;
	now.bytes_in -= then.bytes_in;
	return now;
}

uint64_t trips(const world *w)
{
	return so_far(w->client).round_trips;
}

uint64_t operations(const world *w)
{
	return so_far(w->client).operations;
}

kurma_write_arg whole(const char *path, uint32_t mode, const char *content)
{
	return (kurma_write_arg){ .file = { .path = path }, .mode = mode, .data = content, .length = strlen(content),
				  .flags = KURMA_CREATE | KURMA_TRUNCATE };
}

void make(const world *w, const char *path, const char *content)
{
	kurma_write_arg write = whole(path, 0644, content);
	OK(kurma_vwrite(w->client, &write, 1));
	CHECK(write.done == strlen(content));
}

kurma_read_arg reading(const char *path, uint64_t offset, size_t length)
{
	return (kurma_read_arg){ .file = { .path = path }, .offset = offset, .length = length, .data = room(length, 1) };
}

int is(const kurma_read_arg *read, const char *content)
{
	return read->done == strlen(content) && memcmp(read->data, content, read->done) == 0;
}

int has(const world *w, const char *path, const char *content)
{
	return reads_as(w->client, path, content, strlen(content));
}

int reads_as(const kurma_client *client, const char *path, const void *content, size_t length)
{
	kurma_read_arg read = { .file = { .path = path }, .length = length + 1, .data = malloc(length + 1) };
	OK(kurma_vread(client, &read, 1));
	int same = read.done == length && memcmp(read.data, content, length) == 0 && read.end_of_file;
	free(read.data);
	return same;
}

int holds(const kurma_client *client, uint64_t fd, const char *content)
{
	char data[256];
	size_t done, length = strlen(content);
	CHECK(length < sizeof data);
	OK(kurma_pread(client, fd, data, sizeof data, 0, &done));
	return done == length && memcmp(data, content, length) == 0;
}

void overwrite(const kurma_client *client, const char *path, uint64_t offset, const char *content)
{
	kurma_write_arg write = { .file = { .path = path }, .offset = offset, .data = content, .length = strlen(content) };
	OK(kurma_vwrite(client, &write, 1));
}

uint64_t size_of(const world *w, const char *path)
{
	kurma_attributes stat;
	OK(kurma_stat(w->client, path, &stat));
	return stat.size;
}

uint64_t opened(const kurma_client *client, const char *path, uint32_t flags)
{
	uint64_t fd;
	OK(kurma_open(client, path, flags, 0600, &fd));
	return fd;
}

int there(const world *w, const char *path)
{
	uint32_t exists = 7;
	OK(kurma_exists(w->client, path, &exists));
	return exists == 1;
}

void make_directory(const world *w, const char *path)
{
	OK(kurma_mkdir(w->client, path, 0755));
}

kurma_copy_arg copying(const char *source, const char *destination)
{
	return (kurma_copy_arg){ .source = { .path = source }, .destination = { .path = destination }, .mode = 0600,
				 .length = KURMA_TO_END, .flags = KURMA_CREATE | KURMA_TRUNCATE };
}

void at_once(size_t count, void *(*run)(void *), void *elements, size_t size)
{
	pthread_t *threads = room(count, sizeof *threads);
	for (size_t n = 0; n < count; n++)
		CHECK(pthread_create(&threads[n], NULL, run, (char *)elements + n * size) == 0);
	for (size_t n = 0; n < count; n++)
		CHECK(pthread_join(threads[n], NULL) == 0);
}

void until_it_has_happened(void)
{
	puts("ready");
	fflush(stdout);
	CHECK(getchar() == 'g');
}

unsigned char *bytes(size_t length, unsigned slowness)
{
	unsigned char *data = room(length, 1);
	for (size_t n = 0; n < length; n++)
		data[n] = (unsigned char)(n / slowness);
	return data;
}

int count_entries(const kurma_entry *entry, void *count)
{
	(void)entry;
	++*(int *)count;
	return 0;
}

static uint32_t random_state = 1;

void begin_random(uint32_t seed)
{
	random_state = seed;
}

uint32_t random_below(uint32_t limit)
{
	random_state = random_state * 1664525u + 1013904223u;
	return (random_state >> 8) % limit;
}

int main(int count, char **arguments)
{
	for (size_t group = 0; group < sizeof all / sizeof *all; group++) {
		for (const test_case *one = all[group]; one->name; one++) {
			if (count < 4) {
				puts(one->name);
			} else if (strcmp(one->name, arguments[1]) == 0) {
				world w = { .is_nfs = strcmp(arguments[2], "nfs") == 0, .place = arguments[3] };
				w.user = w.is_nfs ? 0 : geteuid();
				/* Others make clients of their own. */
				if (w.is_nfs || strcmp(arguments[2], "local") == 0)
					w.client = another(&w);
				one->run(&w);
				OK(kurma_close(w.client));
				while (kept_count > 0)
					free(kept[--kept_count]);
				return 0;
			}
		}
	}
	return count < 4 ? 0 : 2;
}
