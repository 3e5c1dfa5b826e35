/* Runs one case: suite CASE nfs|local PLACE. Without arguments it lists them. */
#define _DEFAULT_SOURCE /* _exit, geteuid */
#include "suite.h"

#include <pthread.h>
#include <stdarg.h>
#include <unistd.h>

static const test_case *const all[] = {
	data_cases,    descriptor_cases, name_cases,        attribute_cases, link_cases,    scalar_cases, listing_cases,
	tree_cases,    copy_cases,       transaction_cases, thread_cases,    refusal_cases, server_cases,
	local_cases,   both_cases,       writer_cases,
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
	if (w->is_nfs) {
		kurma_options options;
		kurma_options_init(&options, sizeof options);
		options.uid = options.gid = 0;
		OK(kurma_connect(text("nfs://%s", w->place), &options, &client));
	} else {
		OK(kurma_local(w->place, &client));
	}
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

static kurma_statistics statistics(const world *w)
{
	kurma_statistics now;
	OK(kurma_get_statistics(w->client, &now));
	return now;
}

uint64_t trips(const world *w)
{
	return statistics(w).round_trips;
}

uint64_t operations(const world *w)
{
	return statistics(w).operations;
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
	kurma_read_arg read = reading(path, 0, strlen(content) + 1);
	OK(kurma_vread(w->client, &read, 1));
	return is(&read, content) && read.end_of_file;
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
