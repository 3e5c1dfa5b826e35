/* kurma.h: files by the hundred, in one round trip. Made of the sources of libkurma by cbindgen; not to be edited.
 *
 * The way in is libkurma(3). For all calls:
 *
 * - They return a kurma_result; errno is not touched. There is nothing global.
 * - Pointers are valid or NULL. NULL where something is needed, unknown flags, reserved fields that are not 0 and
 *   numbers that make no sense are refused with EINVAL before anything is done; `index` says which element it was.
 *   Zero a struct before filling it in.
 * - What is to be read from memory is not changed by others during a call, and not looked at afterwards. Room for
 *   results is used by nobody else during a call.
 * - Any number of threads may use one client at once, until one of them closes it. A client does not survive fork(2).
 */

#ifndef KURMA_H
#define KURMA_H

#include <stddef.h>
#include <stdint.h>

/* The offset that stands for the end of a file, wherever that is when the data is written. */
#define KURMA_APPEND UINT64_MAX
/* The length that stands for all up to the end of a file. */
#define KURMA_TO_END UINT64_MAX
/* The index of no element. */
#define KURMA_NO_INDEX SIZE_MAX
/* The bytes of memory that stand for none: what was read is not kept. */
#define KURMA_NO_CACHE UINT64_MAX


// Does not follow a symbolic link that a path ends in.
#define KURMA_NOFOLLOW 1

// Opens for reading.
#define KURMA_READ 2

// Opens for writing.
#define KURMA_WRITE 4

// Creates the file if it is missing, with the permission bits in `mode`.
#define KURMA_CREATE 8

// With KURMA_CREATE: a file that exists already is an error.
#define KURMA_EXCLUSIVE 16

// Cuts off what is in the file before.
#define KURMA_TRUNCATE 32

// What is written survives a loss of power once the call has returned.
#define KURMA_STABLE 64

// Lists also what is below, breadth first.
#define KURMA_RECURSIVE 128

// Goes on listing other directories if one cannot be read.
#define KURMA_GO_ON 256

// Attribute: what kind of object, one of KURMA_FILE to KURMA_SOCKET.
#define KURMA_KIND 1

// Attribute: permission bits, the lower twelve of a Unix mode.
#define KURMA_MODE 2

// Attribute: owner.
#define KURMA_OWNER 4

// Attribute: group.
#define KURMA_GROUP 8

// Attribute: bytes.
#define KURMA_SIZE 16

// Attribute: bytes occupied.
#define KURMA_SPACE_USED 32

// Attribute: names of the object.
#define KURMA_LINKS 64

// Attribute: number of the object in its file system.
#define KURMA_FILE_ID 128

// Attribute: the file system.
#define KURMA_FILE_SYSTEM 256

// Attribute: major and minor number of a device node.
#define KURMA_DEVICE 512

// Attribute: when last read.
#define KURMA_ACCESSED 1024

// Attribute: when the content last changed.
#define KURMA_MODIFIED 2048

// Attribute: when the content or the attributes last changed.
#define KURMA_CHANGED 4096

// Attribute: a number that changes with every change of content or attributes.
#define KURMA_CHANGE 8192

// Attribute: the server's name for the object; NFS only.
#define KURMA_HANDLE 16384

// What stat(2) shows: all attributes but KURMA_CHANGE and KURMA_HANDLE.
#define KURMA_STAT 8191

// Kind: a regular file.
#define KURMA_FILE 1

// Kind: a directory.
#define KURMA_DIRECTORY 2

// Kind: a symbolic link.
#define KURMA_SYMBOLIC_LINK 3

// Kind: a block device.
#define KURMA_BLOCK_DEVICE 4

// Kind: a character device.
#define KURMA_CHARACTER_DEVICE 5

// Kind: a named pipe.
#define KURMA_FIFO 6

// Kind: a socket.
#define KURMA_SOCKET 7

// Does not copy directories.
#define KURMA_COPY_FLAT 1

// Copies what the symbolic links lead to that were named, but not of those below.
#define KURMA_COPY_FOLLOW_NAMED 2

// Copies what symbolic links lead to, everywhere.
#define KURMA_COPY_FOLLOW 4

// Makes symbolic links to files in place of copies of them.
#define KURMA_COPY_SYMBOLIC 8

// Makes further names of files in place of copies of them.
#define KURMA_COPY_HARD 16

// Removes a file that is there and cannot be opened.
#define KURMA_COPY_FORCE 32

// Removes a file that is there.
#define KURMA_COPY_REMOVE 64

// Leaves alone what is there, except that directories are gone into.
#define KURMA_COPY_KEEP 128

// Copies permission bits.
#define KURMA_COPY_MODE 256

// Copies owner and group where that is allowed.
#define KURMA_COPY_OWNER 512

// Copies when an object was read and modified.
#define KURMA_COPY_TIMES 1024

// Names of one file become names of one copy.
#define KURMA_COPY_LINKS 2048

// All that a copy can have of its original: KURMA_COPY_MODE, OWNER, TIMES and LINKS.
#define KURMA_COPY_ALL 3840

// Bytes of the message of a result, the NUL at its end included.
#define KURMA_MESSAGE 232

// Most bytes of a filehandle.
#define KURMA_HANDLE_SIZE 128

// Bytes of a name of an owner or a group, the NUL at its end included.
#define KURMA_OWNER_NAME 64

// Files of an NFS server or of a local directory. Any number of threads may use one at once.
typedef struct kurma_client kurma_client;

// A list of steps of any kinds. It keeps the pointers that it is given: what they point to stays where it is until
// the list is done for the last time, and gets the results. One thread at a time.
typedef struct kurma_steps kurma_steps;

// Writes one open file from front to back, while its program goes on: what is written is gathered into pieces of 1 MiB,
// and up to 16 of them are sent at once. That something could not be written is said by the first call that can, and by every
// one after it; at the latest by kurma_writer_close. Nothing is written then of what follows. Any number of threads may use
// one at once, until one of them closes it; a call waits for those before it.
typedef struct kurma_writer kurma_writer;

// What came of a call. Elements are done in their order, up to the first that fails.
typedef struct kurma_result {
  // 0, or an error number of errno.h. errno itself is not touched.
  int32_t status;
  // 0.
  uint32_t reserved;
  // Elements done, whose results are in them.
  size_t done;
  // The element that failed, or KURMA_NO_INDEX if nothing failed, or no single element is to blame.
  size_t index;
  // How many elements from `index` on may have been done or not: the answer of the server was lost. Nothing that
  // changes a file is ever repeated for that. 0 if the element is known to have failed, and none after it was begun.
  size_t unknown;
  // What failed, of which file, and why; empty if nothing did. Long ones are cut off.
  char message[KURMA_MESSAGE];
} kurma_result;

// How to connect to a server. To be filled in by `kurma_options_init` first.
typedef struct kurma_options {
  // sizeof(kurma_options), by which the library knows which of the fields the program knows.
  size_t size;
  // Who makes the calls.
  uint32_t uid;
  // His group.
  uint32_t gid;
  // Further groups of his, or NULL; of more than 16 the first 16 are sent, as NFS has it.
  const uint32_t *groups;
  // How many.
  size_t group_count;
  // Connections that are used side by side; 0 for one.
  uint32_t connections;
  // 1 or 2 for NFSv4.1 or 4.2 only; 0 for the best that the server has.
  uint32_t minor_version;
  // Most bytes of data in one operation; 0 for 1 MiB.
  uint32_t transfer;
  // 1: uses nothing that only Kurma has, that is neither transactions nor appending in one round trip.
  uint32_t no_extensions;
  // Milliseconds after which a request without an answer is sent again on a new connection; 0 for 30,000.
  uint32_t timeout;
  // Milliseconds after which a call fails to which there was no answer; 0 for 300,000.
  uint32_t patience;
  // The name that the server's certificate has to have; NULL to connect without TLS.
  const char *tls_server;
  // Path of a PEM file with the authorities that are believed.
  const char *tls_authorities;
  // Path of a PEM file with the certificates to show, or NULL.
  const char *tls_certificates;
  // Path of a PEM file with their key, or NULL.
  const char *tls_key;
  // Bytes of memory for what was read, to be handed out again when the server says that it is still so; 0 for 64 MiB,
  // KURMA_NO_CACHE for none.
  uint64_t cache_bytes;
  // 1: each request that changes something is done whole or not at all, and seen whole or not at all by others. What does not fit
  // into one request is several. Only Kurma has this; other servers are refused with EOPNOTSUPP.
  uint32_t atomic;
  // Milliseconds for which a path is believed to lead where it led, if the file there is delegated to the client, so that reading again what is kept
  // costs no round trip; what others do to the directories above it may be seen that much later. 0: each path is walked anew.
  uint32_t entry_timeout;
  // Milliseconds that a connection may take to open; 0 for 10,000.
  uint32_t connect_timeout;
  // Requests that are on the way at one time at most, over all connections; 0 for 64. The server may grant fewer.
  uint32_t slots;
  // Bytes of the largest request and the largest reply; 0 for a little more than 4 MiB. The server may grant less.
  uint32_t message_bytes;
  // 0.
  uint32_t reserved;
} kurma_options;

// What a client has sent and received so far; zeros for a local directory.
typedef struct kurma_statistics {
  // Requests that were sent and waited for.
  uint64_t round_trips;
  // NFS operations in them.
  uint64_t operations;
  // Bytes of the requests.
  uint64_t bytes_out;
  // Bytes of the replies.
  uint64_t bytes_in;
} kurma_statistics;

// The server's name for an object; good for as long as the object exists.
typedef struct kurma_handle {
  // Bytes of it.
  uint32_t length;
  // The bytes.
  uint8_t data[KURMA_HANDLE_SIZE];
} kurma_handle;

// Which file: a path from the root of the client, an open file, or a path from an open directory or a filehandle.
// Names are separated by `/`; `..` is the parent of where the names before it led.
typedef struct kurma_file {
  // The path; NULL or "" for what it would begin at.
  const char *path;
  // The open file that it begins at, or 0.
  uint64_t fd;
  // The filehandle that it begins at, or NULL.
  const struct kurma_handle *handle;
} kurma_file;

// Reads an extent. A file that is named by a path is opened and closed.
typedef struct kurma_read_arg {
  // From where.
  struct kurma_file file;
  // First byte.
  uint64_t offset;
  // Bytes wanted, and room at `data`.
  size_t length;
  // Where they go.
  void *data;
  // KURMA_NOFOLLOW or 0.
  uint32_t flags;
  // Result: 1 if the file ends after what was read.
  uint32_t end_of_file;
  // Result: bytes read; fewer than wanted only at the end of the file.
  size_t done;
  // 0.
  uint64_t reserved[2];
} kurma_read_arg;

// Writes an extent. A file that is named by a path is opened and closed. The data is not copied, and not looked at after the
// call.
typedef struct kurma_write_arg {
  // Where to.
  struct kurma_file file;
  // First byte, or KURMA_APPEND for the end of the file, wherever that is when the data is written.
  uint64_t offset;
  // Bytes at `data`.
  size_t length;
  // The data.
  const void *data;
  // Bits of KURMA_CREATE, EXCLUSIVE, TRUNCATE, STABLE and NOFOLLOW.
  uint32_t flags;
  // Permission bits of a file that is created.
  uint32_t mode;
  // Result: bytes written, which are all.
  size_t done;
  // 0.
  uint64_t reserved[2];
} kurma_write_arg;

// Opens a file.
typedef struct kurma_open_arg {
  // Which.
  struct kurma_file file;
  // KURMA_READ, KURMA_WRITE or both, and bits of KURMA_CREATE, EXCLUSIVE, TRUNCATE and NOFOLLOW.
  uint32_t flags;
  // Permission bits of a file that is created.
  uint32_t mode;
  // Result: the open file, never 0.
  uint64_t fd;
  // 0.
  uint64_t reserved[2];
} kurma_open_arg;

// An instant: seconds since 1970, and nanoseconds below 10^9, always forward.
typedef struct kurma_time {
  // Whole seconds; before 1970 negative.
  int64_t seconds;
  // Nanoseconds.
  uint32_t nanoseconds;
  // 0.
  uint32_t reserved;
} kurma_time;

// Attributes of an object.
typedef struct kurma_attributes {
  // Which of them are here: the bits KURMA_KIND to KURMA_HANDLE. The others are 0.
  uint32_t present;
  // KURMA_FILE to KURMA_SOCKET.
  uint32_t kind;
  // Permission bits: the lower twelve of a Unix mode.
  uint32_t mode;
  // Names of the object.
  uint32_t links;
  // Owner; UINT32_MAX if the server has only a name for him.
  uint32_t uid;
  // Group; UINT32_MAX if the server has only a name for it.
  uint32_t gid;
  // Of a device node.
  uint32_t device_major;
  // Of a device node.
  uint32_t device_minor;
  // Bytes.
  uint64_t size;
  // Bytes occupied.
  uint64_t space_used;
  // Number of the object in its file system.
  uint64_t file_id;
  // The file system.
  uint64_t file_system_major;
  // The file system.
  uint64_t file_system_minor;
  // Changes with every change of content or attributes.
  uint64_t change;
  // When last read.
  struct kurma_time accessed;
  // When the content last changed.
  struct kurma_time modified;
  // When the content or the attributes last changed.
  struct kurma_time changed;
  // The server's name for the object.
  struct kurma_handle handle;
  // Owner, as name@domain, if the server has no number for him; cut off if it is long.
  char owner_name[KURMA_OWNER_NAME];
  // Group, in the same way.
  char group_name[KURMA_OWNER_NAME];
} kurma_attributes;

// Asks for attributes.
typedef struct kurma_getattr_arg {
  // Of what.
  struct kurma_file file;
  // Which: bits KURMA_KIND to KURMA_HANDLE, or KURMA_STAT.
  uint32_t wanted;
  // KURMA_NOFOLLOW for those of a symbolic link itself, or 0.
  uint32_t flags;
  // Result: those wanted, as far as the object has them.
  struct kurma_attributes attributes;
  // 0.
  uint64_t reserved[2];
} kurma_getattr_arg;

// Attributes to set.
typedef struct kurma_new_attributes {
  // Which: bits of KURMA_MODE, OWNER, GROUP, SIZE, ACCESSED and MODIFIED. The others stay.
  uint32_t set;
  // Bits of KURMA_ACCESSED and MODIFIED: set to now, by the clock of the server.
  uint32_t now;
  // Permission bits.
  uint32_t mode;
  // Owner, if `owner_name` is NULL.
  uint32_t uid;
  // Group, if `group_name` is NULL.
  uint32_t gid;
  // 0.
  uint32_t reserved;
  // Bytes: cuts off, or adds a hole.
  uint64_t size;
  // When last read.
  struct kurma_time accessed;
  // When last modified.
  struct kurma_time modified;
  // Owner, as name@domain; NULL for `uid`.
  const char *owner_name;
  // Group, as name@domain; NULL for `gid`.
  const char *group_name;
} kurma_new_attributes;

// Sets attributes.
typedef struct kurma_setattr_arg {
  // Of what.
  struct kurma_file file;
  // KURMA_NOFOLLOW for those of a symbolic link itself, or 0.
  uint32_t flags;
  // 0.
  uint32_t reserved;
  // Which, to what.
  struct kurma_new_attributes attributes;
} kurma_setattr_arg;

// Makes a directory. One that exists already is an error.
typedef struct kurma_mkdir_arg {
  // Its path.
  struct kurma_file file;
  // Its permission bits.
  uint32_t mode;
  // 0.
  uint32_t reserved;
} kurma_mkdir_arg;

// Makes a symbolic link.
typedef struct kurma_symlink_arg {
  // Its path.
  struct kurma_file file;
  // Where it leads.
  const char *text;
} kurma_symlink_arg;

// Asks where a symbolic link leads.
typedef struct kurma_readlink_arg {
  // The link.
  struct kurma_file file;
  // Where the text goes, with a NUL after it. If there is not room enough it is cut off.
  char *text;
  // Room there, the NUL included.
  size_t size;
  // Result: bytes of the whole text without the NUL. It is there whole if this is less than `size`.
  size_t length;
} kurma_readlink_arg;

// Two files: what is there, and the name that it gets.
typedef struct kurma_pair {
  // What is there.
  struct kurma_file from;
  // What is to be there.
  struct kurma_file to;
} kurma_pair;

// Copies an extent.
typedef struct kurma_copy_arg {
  // From where.
  struct kurma_file source;
  // First byte there.
  uint64_t source_offset;
  // Where to.
  struct kurma_file destination;
  // First byte there.
  uint64_t destination_offset;
  // Bytes, or KURMA_TO_END.
  uint64_t length;
  // Bits of KURMA_CREATE, EXCLUSIVE and TRUNCATE, for the destination.
  uint32_t flags;
  // Permission bits of a file that is created.
  uint32_t mode;
  // Result: bytes copied.
  uint64_t done;
  // 0.
  uint64_t reserved[2];
} kurma_copy_arg;

// A name in a directory. What it points to is there as long as the callback runs.
typedef struct kurma_entry {
  // The directory: one of those asked for, or one below.
  struct kurma_file directory;
  // The name; NULL if `status` is not 0.
  const char *name;
  // Bytes of it.
  size_t name_length;
  // The attributes wanted, as far as they could be had. Those of the link if it is a symbolic link. NULL if `status` is not 0.
  const struct kurma_attributes *attributes;
  // 0. With KURMA_GO_ON, which older libraries refuse, also an error number of errno.h: why `directory` could not be read, or not be read further.
  int32_t status;
  // 0.
  uint32_t reserved;
} kurma_entry;

// Is told of each entry. Anything but 0 ends the listing. It may make calls of its own.
typedef int (*kurma_list_callback)(const struct kurma_entry *entry, void *opaque);

// How much one transaction may be.
typedef struct kurma_limits {
  // NFS operations: about two to four for a step. 0 if there are no transactions here.
  uint64_t operations;
  // Bytes of data, names and attributes.
  uint64_t bytes;
} kurma_limits;

// What became of an object of a tree. What it points to is there as long as the callback runs.
typedef struct kurma_fate {
  // Which of the elements it is, or is below.
  size_t element;
  // The object.
  struct kurma_file file;
  // When copying, as what; otherwise like a file that is not there.
  struct kurma_file copy;
  // 0, or why not, as an error number of errno.h.
  int32_t status;
  // When removing, 1 for a directory.
  uint32_t is_directory;
  // When copying a file, its bytes.
  uint64_t bytes;
  // What could not be done and why; "" if it could.
  const char *message;
} kurma_fate;

// Is told what became of each object. It must not make calls of this library: they fail with EOPNOTSUPP.
typedef void (*kurma_fate_callback)(const struct kurma_fate *fate, void *opaque);

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// The message of a result, "success" if nothing failed. Belongs to the result.
const char *kurma_strerror(const struct kurma_result *result);

// The version of the library, as "1.2.3".
const char *kurma_version(void);

// Fills in options with the usual ones: calls are made by the effective user and groups of the process, in the clear. `size`
// is sizeof(kurma_options).
void kurma_options_init(struct kurma_options *options,
                        size_t size);

// Connects to a server: nfs://HOST[:PORT] or HOST[:PORT]. Paths begin at its root. `options` may be NULL for the usual
// ones.
struct kurma_result kurma_connect(const char *server,
                                  const struct kurma_options *options,
                                  struct kurma_client **client);

// Files of this machine below `directory`, with the rights of the process. Paths begin there, and nothing leads out of it.
struct kurma_result kurma_local(const char *directory,
                                struct kurma_client **client);

// Closes every file and ends the connection. The handle is gone, whatever comes of it: no other call may be using it. NULL is
// nothing to close.
struct kurma_result kurma_close(struct kurma_client *client);

// What a client has sent and received so far.
struct kurma_result kurma_get_statistics(const struct kurma_client *client,
                                         struct kurma_statistics *statistics);

// Reads extents of files, into the caller's memory.
struct kurma_result kurma_vread(const struct kurma_client *client,
                                struct kurma_read_arg *reads,
                                size_t count);

// Writes extents of files.
struct kurma_result kurma_vwrite(const struct kurma_client *client,
                                 struct kurma_write_arg *writes,
                                 size_t count);

// Opens files. Those that were opened before one fails stay open.
struct kurma_result kurma_vopen(const struct kurma_client *client,
                                struct kurma_open_arg *opens,
                                size_t count);

// Opens files by their paths, all in the same way; `flags` and `mode` as in kurma_open_arg. `fds` has room for `count`.
struct kurma_result kurma_vopen_simple(const struct kurma_client *client,
                                       const char *const *paths,
                                       size_t count,
                                       uint32_t flags,
                                       uint32_t mode,
                                       uint64_t *fds);

// Closes files. Whoever opens them then sees what was written to them.
struct kurma_result kurma_vclose(const struct kurma_client *client, const uint64_t *fds, size_t count);

// Makes safe what was written through open files, from a loss of power too.
struct kurma_result kurma_vcommit(const struct kurma_client *client, const uint64_t *fds, size_t count);

// Asks for attributes of objects.
struct kurma_result kurma_vgetattrs(const struct kurma_client *client,
                                    struct kurma_getattr_arg *gets,
                                    size_t count);

// Sets attributes of objects.
struct kurma_result kurma_vsetattrs(const struct kurma_client *client,
                                    const struct kurma_setattr_arg *sets,
                                    size_t count);

// Makes directories.
struct kurma_result kurma_vmkdir(const struct kurma_client *client,
                                 const struct kurma_mkdir_arg *directories,
                                 size_t count);

// Makes symbolic links.
struct kurma_result kurma_vsymlink(const struct kurma_client *client,
                                   const struct kurma_symlink_arg *links,
                                   size_t count);

// Asks where symbolic links lead.
struct kurma_result kurma_vreadlink(const struct kurma_client *client,
                                    struct kurma_readlink_arg *links,
                                    size_t count);

// Gives files further names: `from` is the file, `to` the name.
struct kurma_result kurma_vhardlink(const struct kurma_client *client,
                                    const struct kurma_pair *links,
                                    size_t count);

// Gives objects other names, replacing what has them.
struct kurma_result kurma_vrename(const struct kurma_client *client,
                                  const struct kurma_pair *renames,
                                  size_t count);

// Removes files and empty directories.
struct kurma_result kurma_vremove(const struct kurma_client *client,
                                  const struct kurma_file *files,
                                  size_t count);

// Copies within the server, which has to have NFSv4.2: the data does not come here.
struct kurma_result kurma_vsscopy(const struct kurma_client *client,
                                  struct kurma_copy_arg *copies,
                                  size_t count);

// Copies from one client to another, or the same one, through memory; from any server to any other.
struct kurma_result kurma_vcopy(const struct kurma_client *from,
                                struct kurma_copy_arg *copies,
                                size_t count,
                                const struct kurma_client *to);

// Calls `each` for every entry of these directories with the attributes `attributes` (0: names alone); of all below them, too,
// if KURMA_RECURSIVE is in `flags`: breadth first, symbolic links not followed. Entries come as they arrive, in the order of
// the server, so that a long directory needs no long memory. `done` is the number of directories that were read. If `each`
// ends it, `status` is ECANCELED. A directory that cannot be read ends it, too, unless KURMA_GO_ON is in `flags`: then `each` is told, by the
// entry's `status`, and the others are listed; the call is a success even if none could be. It ends all the same when the server does not answer.
struct kurma_result kurma_vlistdir(const struct kurma_client *client,
                                   const struct kurma_file *directories,
                                   size_t count,
                                   uint32_t attributes,
                                   uint32_t flags,
                                   kurma_list_callback each,
                                   void *opaque);

// Makes an empty list.
struct kurma_result kurma_steps_new(struct kurma_steps **steps);

// Frees a list. NULL is nothing to free.
void kurma_steps_free(struct kurma_steps *steps);

// Adds reads.
struct kurma_result kurma_steps_read(struct kurma_steps *steps, struct kurma_read_arg *reads, size_t count);

// Adds writes. The data, too, stays where it is.
struct kurma_result kurma_steps_write(struct kurma_steps *steps,
                                      struct kurma_write_arg *writes,
                                      size_t count);

// Adds the opening of files.
struct kurma_result kurma_steps_open(struct kurma_steps *steps, struct kurma_open_arg *opens, size_t count);

// Adds the closing of files.
struct kurma_result kurma_steps_close(struct kurma_steps *steps, const uint64_t *fds, size_t count);

// Adds making safe what was written through open files.
struct kurma_result kurma_steps_commit(struct kurma_steps *steps, const uint64_t *fds, size_t count);

// Adds questions for attributes.
struct kurma_result kurma_steps_getattrs(struct kurma_steps *steps,
                                         struct kurma_getattr_arg *gets,
                                         size_t count);

// Adds the setting of attributes.
struct kurma_result kurma_steps_setattrs(struct kurma_steps *steps,
                                         const struct kurma_setattr_arg *sets,
                                         size_t count);

// Adds the making of directories.
struct kurma_result kurma_steps_mkdir(struct kurma_steps *steps,
                                      const struct kurma_mkdir_arg *directories,
                                      size_t count);

// Adds the making of symbolic links.
struct kurma_result kurma_steps_symlink(struct kurma_steps *steps,
                                        const struct kurma_symlink_arg *links,
                                        size_t count);

// Adds the reading of symbolic links.
struct kurma_result kurma_steps_readlink(struct kurma_steps *steps,
                                         struct kurma_readlink_arg *links,
                                         size_t count);

// Adds further names of files.
struct kurma_result kurma_steps_hardlink(struct kurma_steps *steps,
                                         const struct kurma_pair *links,
                                         size_t count);

// Adds renames.
struct kurma_result kurma_steps_rename(struct kurma_steps *steps,
                                       const struct kurma_pair *renames,
                                       size_t count);

// Adds the removal of files and empty directories.
struct kurma_result kurma_steps_remove(struct kurma_steps *steps,
                                       const struct kurma_file *files,
                                       size_t count);

// Adds copies within the server.
struct kurma_result kurma_steps_sscopy(struct kurma_steps *steps,
                                       struct kurma_copy_arg *copies,
                                       size_t count);

// Does the steps of a list in order, up to the first that fails. The list stays as it is.
struct kurma_result kurma_execute(const struct kurma_client *client, const struct kurma_steps *steps);

// Does the steps of a list at one instant, or none of them: if `status` is not 0, nothing was done and nobody has seen
// anything, unless `unknown` says that the answer was lost: then all of it was done, or nothing. A step sees what those before
// it do. Only Kurma has this; other servers, and local directories, refuse it with EOPNOTSUPP. The list stays as it is.
struct kurma_result kurma_transaction(const struct kurma_client *client,
                                      const struct kurma_steps *steps);

// How much one transaction may be. More is refused with E2BIG before anything is sent.
struct kurma_result kurma_transaction_limits(const struct kurma_client *client, struct kurma_limits *limits);

// Makes a directory and those above it that are missing, with these permission bits. `done` is how many were made.
struct kurma_result kurma_ensure_directory(const struct kurma_client *client,
                                           struct kurma_file directory,
                                           uint32_t mode);

// Removes files and directories with all below them, children first; symbolic links are not followed. Goes on after
// what cannot be removed; `status`, `index` and the message are of the first such name, `done` counts the names that are
// gone, and `each` (or NULL) is told of each.
struct kurma_result kurma_rm_recursive(const struct kurma_client *client,
                                       const struct kurma_file *files,
                                       size_t count,
                                       kurma_fate_callback each,
                                       void *opaque);

// Copies files, and directories with all below them, from one client to another, or the same one. `to` of each pair is the copy
// itself, not a directory for it. `flags` are bits of KURMA_COPY_FLAT and those after it; `umask` is what new objects do not
// get of the permission bits of their originals. Goes on after what cannot be copied; `status`, `index` and the message
// are of the first such object, `done` counts those that were copied, and `each` (or NULL) is told of each.
struct kurma_result kurma_cp_recursive(const struct kurma_client *from,
                                       const struct kurma_pair *copies,
                                       size_t count,
                                       const struct kurma_client *to,
                                       uint32_t flags,
                                       uint32_t umask,
                                       kurma_fate_callback each,
                                       void *opaque);

// Reads a whole file into memory that is to be freed by free(3), also if it is empty.
struct kurma_result kurma_read_file(const struct kurma_client *client,
                                    const char *path,
                                    void **data,
                                    size_t *length);

// Makes or replaces a whole file.
struct kurma_result kurma_write_file(const struct kurma_client *client,
                                     const char *path,
                                     const void *data,
                                     size_t length,
                                     uint32_t mode);

// Opens a file; `flags` and `mode` as in kurma_open_arg. Its cursor is at the start.
struct kurma_result kurma_open(const struct kurma_client *client,
                               const char *path,
                               uint32_t flags,
                               uint32_t mode,
                               uint64_t *fd);

// Closes a file.
struct kurma_result kurma_close_file(const struct kurma_client *client, uint64_t fd);

// Makes safe what was written to an open file.
struct kurma_result kurma_fsync(const struct kurma_client *client, uint64_t fd);

// Makes an open file this long.
struct kurma_result kurma_ftruncate(const struct kurma_client *client, uint64_t fd, uint64_t size);

// Moves the cursor of an open file. `whence` is SEEK_SET, SEEK_CUR or SEEK_END; `place`, if not NULL, gets where it is then.
struct kurma_result kurma_lseek(const struct kurma_client *client,
                                uint64_t fd,
                                int64_t offset,
                                int32_t whence,
                                uint64_t *place);

// Reads up to `length` bytes from `offset` on; the cursor stays. `done` gets how many, which are fewer only at the end of
// the file.
struct kurma_result kurma_pread(const struct kurma_client *client,
                                uint64_t fd,
                                void *data,
                                size_t length,
                                uint64_t offset,
                                size_t *done);

// Reads at the cursor and moves it on. Several threads that read one open file never get the same bytes.
struct kurma_result kurma_read(const struct kurma_client *client,
                               uint64_t fd,
                               void *data,
                               size_t length,
                               size_t *done);

// Writes all of `length` bytes from `offset` on, or at the end of the file if it is KURMA_APPEND; the cursor stays.
struct kurma_result kurma_pwrite(const struct kurma_client *client,
                                 uint64_t fd,
                                 const void *data,
                                 size_t length,
                                 uint64_t offset);

// Writes all of `length` bytes at the cursor and moves it on.
struct kurma_result kurma_write(const struct kurma_client *client,
                                uint64_t fd,
                                const void *data,
                                size_t length);

// Attributes (KURMA_STAT) of what a path leads to.
struct kurma_result kurma_stat(const struct kurma_client *client,
                               const char *path,
                               struct kurma_attributes *attributes);

// Attributes (KURMA_STAT), those of a symbolic link itself.
struct kurma_result kurma_lstat(const struct kurma_client *client,
                                const char *path,
                                struct kurma_attributes *attributes);

// Attributes (KURMA_STAT) of an open file.
struct kurma_result kurma_fstat(const struct kurma_client *client,
                                uint64_t fd,
                                struct kurma_attributes *attributes);

// Sets `exists` to 1 if there is something of this name, and to 0 if not; a symbolic link that leads nowhere is nothing.
struct kurma_result kurma_exists(const struct kurma_client *client,
                                 const char *path,
                                 uint32_t *exists);

// Makes a directory.
struct kurma_result kurma_mkdir(const struct kurma_client *client, const char *path, uint32_t mode);

// Removes a name that is no directory. Two round trips: NFS has one operation for everything.
struct kurma_result kurma_unlink(const struct kurma_client *client, const char *path);

// Removes an empty directory. Two round trips, as `kurma_unlink`.
struct kurma_result kurma_rmdir(const struct kurma_client *client, const char *path);

// Gives an object another name, replacing what has it.
struct kurma_result kurma_rename(const struct kurma_client *client, const char *from, const char *to);

// Gives a file a further name.
struct kurma_result kurma_link(const struct kurma_client *client, const char *existing, const char *new_);

// Makes a symbolic link at `path` that leads to `text`.
struct kurma_result kurma_symlink(const struct kurma_client *client, const char *text, const char *path);

// Asks where a symbolic link leads: into `text`, with a NUL, cut off if `size` is too small. `length`, if not NULL, gets the
// bytes of the whole without the NUL.
struct kurma_result kurma_readlink(const struct kurma_client *client,
                                   const char *path,
                                   char *text,
                                   size_t size,
                                   size_t *length);

// Makes a file this long: cuts off, or adds a hole.
struct kurma_result kurma_truncate(const struct kurma_client *client, const char *path, uint64_t size);

// Sets permission bits: the lower twelve of a Unix mode.
struct kurma_result kurma_chmod(const struct kurma_client *client, const char *path, uint32_t mode);

// Sets owner and group; UINT32_MAX for one that stays.
struct kurma_result kurma_chown(const struct kurma_client *client,
                                const char *path,
                                uint32_t uid,
                                uint32_t gid);

// Sets when a file was last read and modified; NULL for one that stays.
struct kurma_result kurma_utimens(const struct kurma_client *client,
                                  const char *path,
                                  const struct kurma_time *accessed,
                                  const struct kurma_time *modified);

// Writes an open file from `offset` on. The file belongs to the writer, which closes it: nothing else is to write these bytes
// meanwhile, or close it. If the client is closed before the writer, what is not on stable storage by then may be lost, and
// all that is left to do is kurma_writer_close, which fails.
struct kurma_result kurma_writer_new(const struct kurma_client *client,
                                     uint64_t fd,
                                     uint64_t offset,
                                     struct kurma_writer **writer);

// Takes `length` bytes to be written after those before, and copies them; waits only while 16 pieces are under way. Bytes
// that would make the file longer than a file can be are refused, and nothing of them is taken.
struct kurma_result kurma_writer_write(const struct kurma_writer *writer,
                                       const void *data,
                                       size_t length);

// Waits until all that was written is on stable storage.
struct kurma_result kurma_writer_sync(const struct kurma_writer *writer);

// Where the next byte belongs.
struct kurma_result kurma_writer_position(const struct kurma_writer *writer, uint64_t *position);

// Waits until all that was written is on stable storage, and closes the file, whether or not it is. The handle is gone,
// whatever comes of it: no other call may be using it. A file of up to 1 MiB is written and closed by one round trip. NULL is
// nothing to close.
struct kurma_result kurma_writer_close(struct kurma_writer *writer);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* KURMA_H */
