/* A user who is there whole or not at all: two lines appended and a directory made, at one instant.
 *
 *   cc transaction.c $(pkg-config --cflags --libs kurma) && ./a.out HOST[:PORT] /home/DIRECTORY
 */
#include <stdio.h>
#include <string.h>

#include <kurma.h>

static int failed(const kurma_result *result)
{
	fprintf(stderr, "%s\n", kurma_strerror(result));
	return 1;
}

static kurma_write_arg append(const char *path, const char *line)
{
	kurma_write_arg write = { 0 };
	write.file.path = path;
	write.offset = KURMA_APPEND;
	write.flags = KURMA_CREATE;
	write.mode = 0644;
	write.data = line;
	write.length = strlen(line);
	return write;
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
		return failed(&result);
	kurma_file directory = { 0 };
	directory.path = arguments[2];
	result = kurma_ensure_directory(client, directory, 0755);
	if (result.status)
		return failed(&result);

	char passwd[256], group[256], home[256];
	snprintf(passwd, sizeof passwd, "%s/passwd", arguments[2]);
	snprintf(group, sizeof group, "%s/group", arguments[2]);
	snprintf(home, sizeof home, "%s/joe", arguments[2]);
	kurma_write_arg lines[] = { append(passwd, "joe:x:1000:1000::/home/joe:/bin/sh\n"), append(group, "joe:x:1000:\n") };
	kurma_mkdir_arg make_home = { 0 };
	make_home.file.path = home;
	make_home.mode = 0700;

	/* The list keeps pointers: what they point to stays until it is done. */
	kurma_steps *steps;
	result = kurma_steps_new(&steps);
	if (result.status)
		return failed(&result);
	kurma_steps_write(steps, lines, 2);
	kurma_steps_mkdir(steps, &make_home, 1);
	result = kurma_transaction(client, steps);
	kurma_steps_free(steps);
	if (result.status == 0)
		puts("joe is there");
	else if (result.unknown)
		printf("joe is there, or nothing of him: %s\n", kurma_strerror(&result));
	else
		printf("nothing was done: %s\n", kurma_strerror(&result));
	int status = result.status != 0;
	kurma_close(client);
	return status;
}
