/* Reads many small files in one round trip.
 *
 *   cc read_many.c $(pkg-config --cflags --libs kurma) && ./a.out HOST[:PORT] /home/DIRECTORY
 */
#include <stdio.h>
#include <string.h>

#include <kurma.h>

#define FILES 8

static int failed(const char *what, const kurma_result *result)
{
	fprintf(stderr, "%s: %s\n", what, kurma_strerror(result));
	if (result->unknown)
		fprintf(stderr, "%zu elements from %zu on may have been done\n", result->unknown, result->index);
	return 1;
}

int main(int count, char **arguments)
{
	if (count != 3) {
		fprintf(stderr, "usage: %s HOST[:PORT] DIRECTORY\n", arguments[0]);
		return 2;
	}
	kurma_client *client;
	kurma_result result = kurma_connect(arguments[1], NULL, &client);
	if (result.status)
		return failed(arguments[1], &result);

	/* Something to read: a directory with files, in two round trips. */
	static char paths[FILES][256], data[FILES][64];
	kurma_write_arg writes[FILES] = { 0 };
	kurma_read_arg reads[FILES] = { 0 };
	for (int n = 0; n < FILES; n++) {
		snprintf(paths[n], sizeof paths[n], "%s/file-%d", arguments[2], n);
		writes[n].file.path = reads[n].file.path = paths[n];
		writes[n].flags = KURMA_CREATE | KURMA_TRUNCATE;
		writes[n].mode = 0644;
		writes[n].data = "some data";
		writes[n].length = strlen("some data");
		reads[n].data = data[n];
		reads[n].length = sizeof data[n];
	}
	result = kurma_mkdir(client, arguments[2], 0755);
	if (result.status == 0)
		result = kurma_vwrite(client, writes, FILES);
	if (result.status)
		return failed("writing", &result);

	/* All of it: opened, read and closed, in one. */
	kurma_statistics before, after;
	kurma_get_statistics(client, &before);
	result = kurma_vread(client, reads, FILES);
	kurma_get_statistics(client, &after);
	if (result.status)
		return failed("reading", &result);
	size_t bytes = 0;
	for (int n = 0; n < FILES; n++)
		bytes += reads[n].done;
	printf("%zu files, %zu bytes, %d round trip\n", result.done, bytes, (int)(after.round_trips - before.round_trips));

	result = kurma_close(client);
	return result.status ? failed("closing", &result) : 0;
}
