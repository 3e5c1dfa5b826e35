// What a foreign client has to do (../README.md), by Debian's libnfs, over NFSv4.0.
//
//   client PORT put LOCAL REMOTE       a tree in
//   client PORT get REMOTE LOCAL       a tree out
//   client PORT change SCRIPT REMOTE   what the script says
//   client PORT clear REMOTE           everything in the folder, and the folder
//   client PORT more REMOTE            what trees do not need, in a new folder
//   client PORT share REMOTE           a new folder for everybody, made as the superuser
//
// REMOTE is a folder of the volume `home`, "/NAME".
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/time.h>
#include <sys/types.h>
#include <unistd.h>

#include <nfsc/libnfs.h>

#define WORDS 6
#define PIECE (1 << 20)
// What libnfs 4.0.0 can send at a time by NFSv4: it has 4 KiB for the whole request.
#define WRITE 3000

static struct nfs_context *nfs;
static char piece[PIECE];

__attribute__((format(printf, 1, 2), noreturn)) static void fail(const char *format, ...)
{
    va_list values;
    va_start(values, format);
    vfprintf(stderr, format, values);
    va_end(values);
    fputc('\n', stderr);
    exit(1);
}

// A call of libnfs that must succeed.
static void must(int rc, const char *what, const char *path)
{
    if (rc < 0)
        fail("%s %s: %s (%s)", what, path, strerror(-rc), nfs_get_error(nfs));
}

// A call of the C library that must succeed.
static void here(int rc, const char *what, const char *path)
{
    if (rc < 0)
        fail("%s %s here: %s", what, path, strerror(errno));
}

static char *join(const char *folder, const char *name)
{
    char *path;
    if (asprintf(&path, "%s/%s", folder, name) < 0)
        fail("out of memory");
    return path;
}

static void write_all(struct nfsfh *file, const char *path, uint64_t offset, const char *data, size_t size)
{
    while (size > 0) {
        int count = nfs_pwrite(nfs, file, offset, size < WRITE ? size : WRITE, data);
        must(count, "write", path);
        if (count == 0)
            fail("write %s: nothing is written", path);
        offset += count, data += count, size -= count;
    }
}

// ------------------------------------------------------------------ in and out
static void put_file(const char *local, const char *remote, mode_t mode)
{
    int from = open(local, O_RDONLY);
    here(from, "open", local);
    struct nfsfh *to;
    must(nfs_create(nfs, remote, O_WRONLY | O_CREAT | O_EXCL, mode, &to), "create", remote);
    uint64_t offset = 0;
    ssize_t count;
    while ((count = read(from, piece, PIECE)) > 0) {
        write_all(to, remote, offset, piece, count);
        offset += count;
    }
    here(count, "read", local);
    must(nfs_fsync(nfs, to), "fsync", remote);
    must(nfs_close(nfs, to), "close", remote);
    close(from);
}

static void put(const char *local, const char *remote)
{
    DIR *folder = opendir(local);
    if (folder == NULL)
        here(-1, "open", local);
    struct dirent *entry;
    while ((entry = readdir(folder)) != NULL) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        char *from = join(local, entry->d_name), *to = join(remote, entry->d_name);
        struct stat status;
        here(lstat(from, &status), "stat", from);
        if (S_ISDIR(status.st_mode)) {
            // Later would not do: it opens what it sets a mode of, and folders cannot be opened.
            must(nfs_mkdir2(nfs, to, status.st_mode & 07777), "mkdir", to);
            put(from, to);
        } else if (S_ISLNK(status.st_mode)) {
            ssize_t size = readlink(from, piece, PIECE - 1);
            here(size, "read", from);
            piece[size] = 0;
            must(nfs_symlink(nfs, piece, to), "symlink", to);
        } else {
            put_file(from, to, status.st_mode & 07777);
        }
        free(from), free(to);
    }
    closedir(folder);
}

static void get_file(const char *remote, const char *local, const struct nfs_stat_64 *status)
{
    struct nfsfh *from;
    must(nfs_open(nfs, remote, O_RDONLY, &from), "open", remote);
    int to = open(local, O_WRONLY | O_CREAT | O_EXCL, 0600);
    here(to, "create", local);
    uint64_t offset = 0;
    int count;
    while ((count = nfs_pread(nfs, from, offset, PIECE, piece)) > 0) {
        if (write(to, piece, count) != count)
            here(-1, "write", local);
        offset += count;
    }
    must(count, "read", remote);
    if (offset != status->nfs_size)
        fail("read %s: %ju bytes of %ju", remote, (uintmax_t)offset, (uintmax_t)status->nfs_size);
    must(nfs_close(nfs, from), "close", remote);
    here(fchmod(to, status->nfs_mode & 07777), "chmod", local);
    here(close(to), "close", local);
}

static void get(const char *remote, const char *local)
{
    here(mkdir(local, 0700), "mkdir", local);
    struct nfsdir *folder;
    must(nfs_opendir(nfs, remote, &folder), "list", remote);
    struct nfsdirent *entry;
    while ((entry = nfs_readdir(nfs, folder)) != NULL) {
        if (strcmp(entry->name, ".") == 0 || strcmp(entry->name, "..") == 0)
            continue;
        char *from = join(remote, entry->name), *to = join(local, entry->name);
        struct nfs_stat_64 status;
        must(nfs_lstat64(nfs, from, &status), "stat", from);
        if (entry->mode != status.nfs_mode || entry->size != status.nfs_size)
            fail("%s: is listed with mode %o and %ju bytes", from, entry->mode, (uintmax_t)entry->size);
        if (S_ISDIR(status.nfs_mode)) {
            get(from, to);
            here(chmod(to, status.nfs_mode & 07777), "chmod", to);
        } else if (S_ISLNK(status.nfs_mode)) {
            must(nfs_readlink(nfs, from, piece, PIECE), "readlink", from);
            here(symlink(piece, to), "symlink", to);
        } else {
            get_file(from, to, &status);
        }
        free(from), free(to);
    }
    nfs_closedir(nfs, folder);
}

static void clear(const char *remote)
{
    struct nfsdir *folder;
    must(nfs_opendir(nfs, remote, &folder), "list", remote);
    struct nfsdirent *entry;
    while ((entry = nfs_readdir(nfs, folder)) != NULL) {
        if (strcmp(entry->name, ".") == 0 || strcmp(entry->name, "..") == 0)
            continue;
        char *path = join(remote, entry->name);
        if (S_ISDIR(entry->mode))
            clear(path);
        else
            must(nfs_unlink(nfs, path), "remove", path);
        free(path);
    }
    nfs_closedir(nfs, folder);
    must(nfs_rmdir(nfs, remote), "rmdir", remote);
}

// --------------------------------------------------------------------- changes
// One line of the script: 0, or an error of libnfs.
static int operation(const char *remote, char **word, int words)
{
    char *path[WORDS] = {NULL};
    for (int i = 1; i < words; i++)
        path[i] = join(remote, word[i]);
    int rc = -EINVAL;
    struct nfsfh *file;
    if (strcmp(word[0], "mkdir") == 0 && words == 3)
        rc = nfs_mkdir2(nfs, path[2], strtol(word[1], NULL, 8));
    else if (strcmp(word[0], "rename") == 0 && words == 3)
        rc = nfs_rename(nfs, path[1], path[2]);
    else if (strcmp(word[0], "remove") == 0 && words == 2)
        rc = nfs_unlink(nfs, path[1]);
    else if (strcmp(word[0], "rmdir") == 0 && words == 2)
        rc = nfs_rmdir(nfs, path[1]);
    else if (strcmp(word[0], "truncate") == 0 && words == 3)
        rc = nfs_truncate(nfs, path[2], strtoull(word[1], NULL, 10));
    else if (strcmp(word[0], "write") == 0 && words == 4) {
        rc = nfs_open(nfs, path[3], O_RDWR, &file);
        if (rc == 0) {
            write_all(file, path[3], strtoull(word[1], NULL, 10), word[2], strlen(word[2]));
            rc = nfs_close(nfs, file);
        }
    } else if (strcmp(word[0], "chmod") == 0 && words == 3)
        rc = nfs_chmod(nfs, path[2], strtol(word[1], NULL, 8));
    else if (strcmp(word[0], "symlink") == 0 && words == 3)
        rc = nfs_symlink(nfs, word[1], path[2]);
    else if (strcmp(word[0], "link") == 0 && words == 3)
        rc = nfs_link(nfs, path[1], path[2]);
    else
        fail("no such operation: %s", word[0]);
    for (int i = 1; i < words; i++)
        free(path[i]);
    return rc;
}

static int error_number(const char *name)
{
    for (int number = 1; number < 134; number++) {
        const char *known = strerrorname_np(number);
        if (known != NULL && strcmp(known, name) == 0)
            return number;
    }
    fail("no such error: %s", name);
}

static void change(const char *script, const char *remote)
{
    FILE *lines = fopen(script, "r");
    if (lines == NULL)
        here(-1, "open", script);
    char *line = NULL;
    size_t room = 0;
    while (getline(&line, &room, lines) > 0) {
        line[strcspn(line, "\n")] = 0;
        if (line[0] == 0 || line[0] == '#')
            continue;
        char *word[WORDS], *rest = line;
        int words = 0;
        while (rest != NULL && words < WORDS)
            word[words++] = strsep(&rest, "\t");
        if (words > 2 && strcmp(word[0], "fails") == 0) {
            int rc = operation(remote, word + 2, words - 2);
            if (rc != -error_number(word[1]))
                fail("%s %s: %d instead of %s (%s)", word[2], word[words - 1], rc, word[1], nfs_get_error(nfs));
        } else {
            must(operation(remote, word, words), word[0], word[words - 1]);
        }
    }
    free(line);
    fclose(lines);
}

// ------------------------------------------------------------------------ more
static void expect(int holds, const char *what)
{
    if (!holds)
        fail("not as it should be: %s (%s)", what, nfs_get_error(nfs));
}

// What trees do not need; `other` is another client.
static void more(struct nfs_context *other, const char *remote)
{
    must(nfs_mkdir2(nfs, remote, 0755), "mkdir", remote);
    char *path = join(remote, "file"), *second = join(remote, "second");
    struct nfsfh *file, *theirs;
    struct nfs_stat_64 status;

    must(nfs_create(nfs, path, O_RDWR | O_CREAT | O_EXCL, 0644, &file), "create", path);
    write_all(file, path, 0, "0123456789", 10);
    uint64_t at = 0;
    must(nfs_lseek(nfs, file, -3, SEEK_END, &at), "seek", path);
    expect(at == 7, "seek from the end");
    expect(nfs_read(nfs, file, 10, piece) == 3 && memcmp(piece, "789", 3) == 0, "read from there");

    // Locks. The other one cannot close its file any more: whoever locks counts wrongly from then on (../README.md).
    must(nfs_open(other, path, O_RDWR, &theirs), "open", path);
    struct nfs4_flock range = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 5};
    must(nfs_fcntl(other, theirs, NFS4_F_SETLK, &range), "lock", path);
    must(nfs_lseek(nfs, file, 0, SEEK_SET, &at), "seek", path);
    expect(nfs_lockf(nfs, file, NFS4_F_TEST, 1) != 0, "what is locked is said to be free");
    range.l_type = F_UNLCK;
    must(nfs_fcntl(other, theirs, NFS4_F_SETLK, &range), "unlock", path);
    must(nfs_lockf(nfs, file, NFS4_F_TEST, 1), "ask for a lock of", path);

    // Without a name it is still there for who has it open.
    must(nfs_unlink(other, path), "remove", path);
    expect(nfs_stat64(nfs, path, &status) == -ENOENT, "a removed file has a name");
    expect(nfs_pread(nfs, file, 0, 10, piece) == 10 && memcmp(piece, "0123456789", 10) == 0, "removed while open");
    must(nfs_close(nfs, file), "close", path);

    must(nfs_create(nfs, second, O_WRONLY | O_CREAT, 0600, &file), "create", second);
    must(nfs_close(nfs, file), "close", second);
    for (int line = 0; line < 3; line++) {
        must(nfs_open(nfs, second, O_WRONLY | O_APPEND, &file), "open", second);
        must(nfs_write(nfs, file, 5, "line\n"), "append", second);
        must(nfs_close(nfs, file), "close", second);
    }
    struct timeval times[2] = {{1000000000, 0}, {1234567890, 500000}};
    must(nfs_utimes(nfs, second, times), "set times of", second);
    must(nfs_stat64(nfs, second, &status), "stat", second);
    expect(status.nfs_size == 15 && status.nfs_mtime == 1234567890 && status.nfs_atime == 1000000000, "size and times");
    must(nfs_access(nfs, second, R_OK | W_OK), "access", second);
    struct statvfs volume;
    must(nfs_statvfs(nfs, remote, &volume), "statvfs", remote);
    expect(volume.f_bsize > 0 && volume.f_blocks > 0 && volume.f_namemax == 255, "what the volume says of itself");
    free(path), free(second);
}

// Another client than `nfs`, at the same address.
static struct nfs_context *another(const char *address)
{
    struct nfs_context *other = nfs_init_context();
    if (other == NULL)
        fail("out of memory");
    struct nfs_url *url = nfs_parse_url_dir(other, address);
    nfs4_set_client_name(other, "the other one");
    must(nfs_mount(other, url->server, url->path), "mount", address);
    nfs_destroy_url(url);
    return other;
}

int main(int argc, char **argv)
{
    if (argc < 4)
        fail("usage: client PORT put|get|change|clear|more|share ...");
    char *address;
    if (asprintf(&address, "nfs://127.0.0.1/home?version=4&nfsport=%s", argv[1]) < 0 || (nfs = nfs_init_context()) == NULL)
        fail("out of memory");
    struct nfs_url *url = nfs_parse_url_dir(nfs, address);
    if (url == NULL)
        fail("%s: %s", address, nfs_get_error(nfs));
    if (strcmp(argv[2], "share") == 0)
        nfs_set_uid(nfs, 0), nfs_set_gid(nfs, 0);
    must(nfs_mount(nfs, url->server, url->path), "mount", address);
    nfs_umask(nfs, 0);
    if (strcmp(argv[2], "put") == 0 && argc == 5) {
        must(nfs_mkdir2(nfs, argv[4], 0755), "mkdir", argv[4]);
        put(argv[3], argv[4]);
    } else if (strcmp(argv[2], "get") == 0 && argc == 5)
        get(argv[3], argv[4]);
    else if (strcmp(argv[2], "change") == 0 && argc == 5)
        change(argv[3], argv[4]);
    else if (strcmp(argv[2], "clear") == 0 && argc == 4)
        clear(argv[3]);
    else if (strcmp(argv[2], "more") == 0 && argc == 4) {
        struct nfs_context *other = another(address);
        more(other, argv[3]);
        nfs_destroy_context(other);
    } else if (strcmp(argv[2], "share") == 0 && argc == 4)
        must(nfs_mkdir2(nfs, argv[3], 0777), "mkdir", argv[3]);
    else
        fail("usage: client PORT put|get|change|clear|more|share ...");
    must(nfs_umount(nfs), "unmount", address);
    nfs_destroy_url(url);
    nfs_destroy_context(nfs);
    free(address);
    return 0;
}
