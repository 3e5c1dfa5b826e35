/* Reading directories. */
#include "suite.h"

typedef struct seen {
	world *w;
	const char **paths;
	size_t count, most;
	size_t depth;
	int also_ask;
} seen;

static int see(const kurma_entry *entry, void *opaque)
{
	seen *s = opaque;
	CHECK(s->count < s->most);
	const char *path = text("%s/%s", entry->directory.path, entry->name);
	size_t depth = 0;
	for (const char *at = path; *at; at++)
		depth += *at == '/';
	CHECK(depth >= s->depth); /* breadth first */
	s->depth = depth;
	CHECK((entry->attributes->kind == KURMA_FILE) == (entry->name[0] == 'f'));
	CHECK(entry->attributes->present & KURMA_SIZE);
	if (s->also_ask) {
		/* Another call from within. */
		kurma_attributes stat;
		OK(kurma_lstat(s->w->client, path, &stat));
		CHECK(stat.kind == entry->attributes->kind);
	}
	s->paths[s->count++] = path;
	return 0;
}

static int compare(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void a_walk_finds_everything_once_breadth_first(world *w)
{
	kurma_mkdir_arg *directories = room(200, sizeof *directories);
	kurma_write_arg *files = room(600, sizeof *files);
	size_t directory_count = 0, file_count = 0, level = 0;
	for (int n = 0; n < 5; n++)
		directories[directory_count++] = (kurma_mkdir_arg){ .file = AT("/home/d%d", n), .mode = 0755 };
	for (int depth = 1; depth < 3; depth++) {
		size_t end = directory_count;
		for (; level < end; level++)
			for (int n = 0; n < 5; n++)
				directories[directory_count++] =
					(kurma_mkdir_arg){ .file = AT("%s/d%d", directories[level].file.path, n), .mode = 0755 };
	}
	for (size_t at = 0; at < directory_count; at++)
		for (int n = 0; n < 3; n++)
			files[file_count++] = whole(text("%s/f%d", directories[at].file.path, n), 0600, "x");
	OK(kurma_vmkdir(w->client, directories, directory_count));
	OK(kurma_vwrite(w->client, files, file_count));
	seen s = { .w = w, .paths = room(1000, sizeof(char *)), .most = 1000 };
	kurma_file home = AT("/home");
	uint64_t before = trips(w);
	kurma_result result =
		kurma_vlistdir(w->client, &home, 1, KURMA_KIND | KURMA_SIZE, KURMA_RECURSIVE, see, &s);
	OK(result);
	CHECK(trips(w) - before <= 4); /* one for each depth */
	CHECK(result.done == 1 + 5 + 25 + 125);
	CHECK(s.count == directory_count + file_count);
	qsort(s.paths, s.count, sizeof *s.paths, compare);
	for (size_t n = 1; n < s.count; n++)
		CHECK(strcmp(s.paths[n - 1], s.paths[n]) < 0);
	seen again = { .w = w, .paths = s.paths, .most = 1000, .also_ask = 1 };
	kurma_file one = AT("/home/d0");
	OK(kurma_vlistdir(w->client, &one, 1, KURMA_KIND | KURMA_SIZE, 0, see, &again));
	CHECK(again.count == 8);
}

typedef struct many {
	unsigned char found[20000];
	size_t count;
	char first[16], last[16];
} many;

static int see_many(const kurma_entry *entry, void *opaque)
{
	many *m = opaque;
	if (m->count++ == 0)
		snprintf(m->first, sizeof m->first, "%s", entry->name);
	snprintf(m->last, sizeof m->last, "%s", entry->name);
	if (strncmp(entry->name, "a-long-name-", 12) == 0) {
		CHECK(strcmp(entry->directory.path, "/home/large") == 0);
		CHECK(m->found[atoi(entry->name + 12)]++ == 0);
		CHECK(entry->attributes->kind == KURMA_SYMBOLIC_LINK);
	}
	return 0;
}

static void a_directory_of_many_pages_is_listed_once_beside_others(world *w)
{
	kurma_symlink_arg *links = room(20000, sizeof *links);
	many *m = room(1, sizeof *m);
	make_directory(w, "/home/small");
	make_directory(w, "/home/large");
	make_directory(w, "/home/last");
	make_directory(w, "/home/small/one");
	make_directory(w, "/home/last/two");
	for (int n = 0; n < 20000; n++)
		links[n] = (kurma_symlink_arg){ AT("/home/large/a-long-name-%d", n), "x" };
	OK(kurma_vsymlink(w->client, links, 20000));
	kurma_file directories[] = { AT("/home/small"), AT("/home/large"), AT("/home/last") };
	kurma_result result = kurma_vlistdir(w->client, directories, 3, KURMA_KIND, 0, see_many, m);
	OK(result);
	CHECK(result.done == 3 && m->count == 20002);
	CHECK(strcmp(m->first, "one") == 0 && strcmp(m->last, "two") == 0);
}

static int stop_at_third(const kurma_entry *entry, void *opaque)
{
	(void)entry;
	return ++*(int *)opaque == 3;
}

static void a_listing_ends_when_the_callback_says_so_or_a_directory_cannot_be_read(world *w)
{
	int called = 0;
	make_directory(w, "/home/a");
	make_directory(w, "/home/b");
	for (int n = 0; n < 4; n++)
		make(w, text("/home/%s/f%d", n < 2 ? "a" : "b", n), "");
	kurma_file directories[] = { AT("/home/a"), AT("/home/b") };
	kurma_result result = kurma_vlistdir(w->client, directories, 2, 0, 0, stop_at_third, &called);
	CHECK(result.status == ECANCELED && result.done == 1 && result.index == 1 && called == 3);
	called = -100;
	kurma_file some[] = { AT("/home/a"), AT("/home/none"), AT("/home/b") };
	FAILS(ENOENT, 1, kurma_vlistdir(w->client, some, 3, 0, 0, stop_at_third, &called));
	CHECK(called == -98);
	kurma_file file = AT("/home/a/f0");
	FAILS(ENOTDIR, 0, kurma_vlistdir(w->client, &file, 1, 0, 0, stop_at_third, &called));
}

typedef struct rest {
	char text[600];
	size_t entries;
	int stop_at_error;
} rest;

static int note(const kurma_entry *entry, void *opaque)
{
	rest *r = opaque;
	CHECK(entry->reserved == 0);
	if (entry->status == 0) {
		CHECK(entry->name && entry->attributes && entry->name_length == strlen(entry->name));
		r->entries++;
		return 0;
	}
	CHECK(!entry->name && !entry->attributes && entry->name_length == 0);
	size_t end = strlen(r->text);
	snprintf(r->text + end, sizeof r->text - end, "%s %s;", entry->directory.path,
		 entry->status == ENOENT ? "is missing" : entry->status == ENOTDIR ? "is no directory" : "?");
	return r->stop_at_error;
}

static void a_listing_that_goes_on_tells_of_each_directory_that_cannot_be_read(world *w)
{
	make_directory(w, "/home/a");
	make_directory(w, "/home/a/below");
	make_directory(w, "/home/b");
	make(w, "/home/a/below/f0", "");
	make(w, "/home/b/f1", "");
	kurma_file some[] = { AT("/home/none"), AT("/home/a"), AT("/home/b/f1"), AT("/home/b") };
	rest r = { .entries = 0 };
	kurma_result result = kurma_vlistdir(w->client, some, 4, KURMA_SIZE, KURMA_RECURSIVE | KURMA_GO_ON, note, &r);
	OK(result);
	CHECK(result.done == 3 && r.entries == 3);
	CHECK(strcmp(r.text, "/home/none is missing;/home/b/f1 is no directory;") == 0);
	rest ended = { .stop_at_error = 1 };
	result = kurma_vlistdir(w->client, some, 4, 0, KURMA_GO_ON, note, &ended);
	CHECK(result.status == ECANCELED && result.done == 0 && ended.entries == 0);
	FAILS(EINVAL, KURMA_NO_INDEX, kurma_vlistdir(w->client, some, 4, 0, KURMA_CREATE, note, &ended));
}

const test_case listing_cases[] = {
	CASE(a_listing_that_goes_on_tells_of_each_directory_that_cannot_be_read),
	CASE(a_walk_finds_everything_once_breadth_first),
	CASE(a_directory_of_many_pages_is_listed_once_beside_others),
	CASE(a_listing_ends_when_the_callback_says_so_or_a_directory_cannot_be_read),
	{ NULL, NULL },
};
