/* What makes no sense. */
#include "suite.h"

static int never(const kurma_entry *entry, void *opaque)
{
	(void)entry;
	(void)opaque;
	abort();
}

static void what_makes_no_sense_is_refused_and_nothing_is_done(world *w)
{
	kurma_client *c = w->client;
	kurma_write_arg good = whole("/home/x", 0600, "x");
	kurma_read_arg read = reading("/home/x", 0, 4);
	char *misaligned = (char *)room(2, sizeof read) + 1;
	uint64_t fd = 0;
	size_t done = 0;
	kurma_attributes stat;
	kurma_steps *steps;

	/* No arrays, and arrays that cannot be. */
	FAILS(EINVAL, KURMA_NO_INDEX, kurma_vread(NULL, &read, 1));
	FAILS(EINVAL, KURMA_NO_INDEX, kurma_vread(c, NULL, 1));
	FAILS(EINVAL, KURMA_NO_INDEX, kurma_vread(c, &read, SIZE_MAX));
	FAILS(EINVAL, KURMA_NO_INDEX, kurma_vread(c, &read, SIZE_MAX / sizeof read));
	FAILS(EINVAL, KURMA_NO_INDEX, kurma_vread(c, (kurma_read_arg *)(void *)misaligned, 1));
	OK(kurma_vread(c, NULL, 0));
	OK(kurma_vclose(c, NULL, 0));
	FAILS(EINVAL, KURMA_NO_INDEX, kurma_vclose(c, NULL, 1));
	FAILS(EINVAL, KURMA_NO_INDEX, kurma_vremove(c, NULL, 3));
	FAILS(EINVAL, KURMA_NO_INDEX, kurma_vlistdir(c, NULL, 1, 0, 0, never, NULL));
	FAILS(EINVAL, KURMA_NO_INDEX, kurma_vlistdir(c, &good.file, 1, 0, 0, NULL, NULL));
	FAILS(EINVAL, KURMA_NO_INDEX, kurma_vlistdir(c, &good.file, 1, 1u << 20, 0, never, NULL));
	FAILS(EINVAL, KURMA_NO_INDEX, kurma_vlistdir(c, &good.file, 1, 0, 1, never, NULL));

	/* Elements: the second of each is wrong, and the first is not begun. */
	kurma_write_arg writes[2] = { good, good };
#define REFUSED(expected, change)                                       \
	do {                                                            \
		writes[1] = good;                                       \
		change;                                                 \
		FAILS(expected, 1, kurma_vwrite(c, writes, 2));         \
		CHECK(!there(w, "/home/x"));                            \
	} while (0)
	REFUSED(EINVAL, writes[1].file.path = NULL);
	REFUSED(EINVAL, writes[1].data = NULL);
	REFUSED(EINVAL, writes[1].length = SIZE_MAX);
	REFUSED(EINVAL, writes[1].flags = KURMA_EXCLUSIVE);
	REFUSED(EINVAL, writes[1].flags = 1u << 31);
	REFUSED(EINVAL, writes[1].reserved[1] = 1);
	kurma_handle handle = { .length = 129 };
	REFUSED(EINVAL, writes[1].file.handle = &handle);
	REFUSED(EINVAL, (writes[1].file.fd = 7, writes[1].file.handle = &handle));
	char *endless = memset(room((1 << 20) + 1, 1), 'a', 1 << 20);
	REFUSED(ENAMETOOLONG, writes[1].file.path = endless);

	read.data = NULL;
	FAILS(EINVAL, 0, kurma_vread(c, &read, 1));
	kurma_setattr_arg set = { .file = { .path = "/home" }, .attributes = { .set = KURMA_LINKS } };
	FAILS(EINVAL, 0, kurma_vsetattrs(c, &set, 1));
	kurma_getattr_arg get = { .file = { .path = "/home" }, .wanted = 1u << 15 };
	FAILS(EINVAL, 0, kurma_vgetattrs(c, &get, 1));
	kurma_symlink_arg symlink = { AT("/home/x"), NULL };
	FAILS(EINVAL, 0, kurma_vsymlink(c, &symlink, 1));

	/* One at a time. */
	FAILS(EINVAL, 0, kurma_stat(c, NULL, &stat));
	FAILS(EINVAL, KURMA_NO_INDEX, kurma_stat(c, "/home", NULL));
	FAILS(EINVAL, KURMA_NO_INDEX, kurma_open(c, "/home", KURMA_READ, 0, NULL));
	FAILS(EINVAL, KURMA_NO_INDEX, kurma_read(c, 1, NULL, 5, &done));
	FAILS(EINVAL, 0, kurma_pread(c, 1, NULL, 5, 0, &done));
	FAILS(EBADF, 0, kurma_pwrite(c, 77, "x", 1, 0));
	FAILS(EBADF, KURMA_NO_INDEX, kurma_read(c, 0, misaligned, 1, &done));
	FAILS(EBADF, 0, kurma_fsync(c, fd));
	FAILS(EINVAL, KURMA_NO_INDEX, kurma_lseek(c, 1, 0, 77, NULL));
	FAILS(EINVAL, KURMA_NO_INDEX, kurma_read_file(c, "/home", NULL, &done));
	FAILS(EINVAL, KURMA_NO_INDEX, kurma_exists(c, NULL, NULL));
	FAILS(EINVAL, KURMA_NO_INDEX, kurma_ensure_directory(c, (kurma_file){ 0 }, 0755));
	FAILS(EINVAL, KURMA_NO_INDEX, kurma_cp_recursive(c, NULL, 0, NULL, 0, 0, NULL, NULL));
	FAILS(EINVAL, KURMA_NO_INDEX, kurma_cp_recursive(c, NULL, 0, c, 1u << 20, 0, NULL, NULL));

	/* Lists. */
	FAILS(EINVAL, KURMA_NO_INDEX, kurma_steps_new(NULL));
	OK(kurma_steps_new(&steps));
	FAILS(EINVAL, KURMA_NO_INDEX, kurma_steps_read(steps, NULL, 1));
	FAILS(EINVAL, KURMA_NO_INDEX, kurma_steps_read(NULL, &read, 1));
	OK(kurma_execute(c, steps));
	OK(kurma_steps_write(steps, &good, 1));
	OK(kurma_steps_read(steps, &read, 1));
	FAILS(EINVAL, 1, kurma_execute(c, steps));
	FAILS(EINVAL, KURMA_NO_INDEX, kurma_execute(c, NULL));
	FAILS(EINVAL, KURMA_NO_INDEX, kurma_transaction(c, NULL));
	FAILS(EINVAL, KURMA_NO_INDEX, kurma_transaction_limits(c, NULL));
	kurma_steps_free(steps);
	kurma_steps_free(NULL);
	CHECK(!there(w, "/home/x"));

	CHECK(strcmp(kurma_strerror(NULL), "no result") == 0);
	kurma_result fine = kurma_vread(c, NULL, 0);
	CHECK(fine.status == 0 && fine.index == KURMA_NO_INDEX && strcmp(kurma_strerror(&fine), "success") == 0);
	CHECK(strchr(kurma_version(), '.') != NULL);
}

static void results_fit_where_they_go(world *w)
{
	/* Every room is as large as it is said to be; the sanitizer looks after what is beyond. */
	make(w, "/home/file", "content");
	OK(kurma_symlink(w->client, "to/somewhere", "/home/link"));
	for (size_t length = 0; length < 9; length++) {
		char *data = malloc(length ? length : 1);
		kurma_read_arg read = { .file = { .path = "/home/file" }, .length = length, .data = data };
		OK(kurma_vread(w->client, &read, 1));
		CHECK(read.done == (length < 7 ? length : 7) && memcmp(data, "content", read.done) == 0);
		free(data);
	}
	for (size_t size = 0; size < 15; size++) {
		char *where = malloc(size ? size : 1);
		size_t length = 0;
		OK(kurma_readlink(w->client, "/home/link", where, size, &length));
		CHECK(length == 12);
		if (size > 0)
			CHECK(strlen(where) == (size <= 12 ? size - 1 : 12) && strncmp(where, "to/somewhere", strlen(where)) == 0);
		free(where);
	}
	/* Messages of long names end. */
	char *path = memset(room(5000, 1), 'a', 4000);
	memcpy(path, "/home/", 6);
	kurma_attributes stat;
	kurma_result result = kurma_stat(w->client, path, &stat);
	CHECK(result.status != 0 && strlen(result.message) == sizeof result.message - 1);
}

const test_case refusal_cases[] = {
	CASE(what_makes_no_sense_is_refused_and_nothing_is_done),
	CASE(results_fit_where_they_go),
	{ NULL, NULL },
};
