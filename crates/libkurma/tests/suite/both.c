/* The same random vectors over NFS and on this machine: the same results, the same failures, the same trees. */
#include "suite.h"

#define STEPS 12
#define VECTORS 25
#define SEEDS 8

typedef struct step {
	int kind;
	kurma_write_arg write;
	kurma_read_arg read;
	kurma_mkdir_arg mkdir;
	kurma_file file;
	kurma_pair pair;
	kurma_symlink_arg symlink;
	kurma_readlink_arg readlink;
	kurma_getattr_arg get;
	kurma_setattr_arg set;
	char data[40];
} step;

static const char *random_path(int seed)
{
	static const char *const names[] = { "a", "b", "d", "d/a", "d/b", "d/e", "d/e/a", "link", "link/a", "d/e/b" };
	return text("/home/%d/%s", seed, names[random_below(sizeof names / sizeof *names)]);
}

static step random_step(int seed)
{
	step s = { .kind = (int)random_below(12) };
	const char *one = random_path(seed), *other = random_path(seed);
	uint32_t number = random_below(30);
	s.write = whole(one, 0600 + number % 8, text("content %u", number));
	if (number % 3 == 0)
		s.write.flags = KURMA_CREATE;
	if (number % 5 == 0)
		s.write.flags = 0;
	s.write.offset = number % 4 == 0 ? number : 0;
	if (number % 7 == 0)
		s.write.offset = KURMA_APPEND;
	s.read = (kurma_read_arg){ .file = { .path = one }, .offset = number % 9, .length = 1 + number };
	s.mkdir = (kurma_mkdir_arg){ .file = { .path = one }, .mode = 0700 + number };
	s.file = (kurma_file){ .path = one };
	s.pair = (kurma_pair){ { .path = one }, { .path = other } };
	s.symlink = (kurma_symlink_arg){ { .path = one }, number % 2 ? "d" : "a" };
	s.readlink = (kurma_readlink_arg){ .file = { .path = one }, .size = sizeof s.data };
	s.get = (kurma_getattr_arg){ .file = { .path = one }, .flags = number % 2 ? KURMA_NOFOLLOW : 0,
				     .wanted = KURMA_KIND | KURMA_SIZE | KURMA_LINKS };
	s.set = (kurma_setattr_arg){ .file = { .path = one }, .attributes = { .set = KURMA_SIZE, .size = number } };
	if (number % 2)
		s.set.attributes.set = KURMA_MODE;
	s.set.attributes.mode = 0700 + number;
	return s;
}

static kurma_result play(kurma_client *client, step *vector, size_t count)
{
	kurma_steps *steps;
	OK(kurma_steps_new(&steps));
	for (step *s = vector; s < vector + count; s++) {
		s->read.data = s->readlink.text = s->data;
		switch (s->kind) {
		case 0:
		case 1: OK(kurma_steps_write(steps, &s->write, 1)); break;
		case 2: OK(kurma_steps_read(steps, &s->read, 1)); break;
		case 3:
		case 4: OK(kurma_steps_mkdir(steps, &s->mkdir, 1)); break;
		case 5: OK(kurma_steps_remove(steps, &s->file, 1)); break;
		case 6: OK(kurma_steps_rename(steps, &s->pair, 1)); break;
		case 7: OK(kurma_steps_hardlink(steps, &s->pair, 1)); break;
		case 8: OK(kurma_steps_symlink(steps, &s->symlink, 1)); break;
		case 9: OK(kurma_steps_readlink(steps, &s->readlink, 1)); break;
		case 10: OK(kurma_steps_getattrs(steps, &s->get, 1)); break;
		case 11: OK(kurma_steps_setattrs(steps, &s->set, 1)); break;
		}
	}
	kurma_result result = kurma_execute(client, steps);
	kurma_steps_free(steps);
	return result;
}

/* What a step came to, as far as both have to agree: a directory is as large as its file system likes. */
static const char *told(const step *s)
{
	const kurma_attributes *it = &s->get.attributes;
	switch (s->kind) {
	case 0:
	case 1: return text("wrote %zu", s->write.done);
	case 2: return text("read %zu %u %.*s", s->read.done, s->read.end_of_file, (int)s->read.done, s->data);
	case 9: return text("leads to %s", s->data);
	case 10:
		return text("kind %u size %d links %u", it->kind, it->kind == KURMA_DIRECTORY ? 0 : (int)it->size,
			    it->kind == KURMA_DIRECTORY ? 0 : it->links);
	default: return "done";
	}
}

static int add(const kurma_entry *entry, void *opaque)
{
	const kurma_attributes *it = entry->attributes;
	uint64_t hash = 1469598103934665603u;
	for (const char *at = text("%s/%s", entry->directory.path, entry->name); *at; at++)
		hash = (hash ^ (unsigned char)*at) * 1099511628211u;
	hash += it->kind * 3;
	if (it->kind != KURMA_DIRECTORY)
		hash += it->size * 5 + it->links * 7;
	if (it->kind != KURMA_SYMBOLIC_LINK)
		hash += it->mode * 11;
	*(uint64_t *)opaque += hash;
	return 0;
}

static uint64_t tree(kurma_client *client, int seed)
{
	uint64_t sum = 0;
	kurma_file directory = AT("/home/%d", seed);
	OK(kurma_vlistdir(client, &directory, 1, KURMA_STAT, KURMA_RECURSIVE, add, &sum));
	return sum;
}

/* Where several reasons forbid something, another one of them may be given. */
static int is_same_failure(const step *s, int one, int other)
{
	if (s->kind == 6 || s->kind == 7)
		return (one != 0) == (other != 0);
	return one == other;
}

static void random_vectors_do_the_same_everywhere(world *w)
{
	const char *directory = strchr(w->place, ' ');
	CHECK(directory != NULL);
	world worlds[] = { { .is_nfs = 1, .place = text("%.*s", (int)(directory - w->place), w->place) },
			   { .place = directory + 1 } };
	kurma_client *nfs = worlds[0].client = another(&worlds[0]), *local = worlds[1].client = another(&worlds[1]);
	size_t failures = 0, successes = 0;
	for (int seed = 1; seed <= SEEDS; seed++) {
		begin_random((uint32_t)seed);
		for (int n = 0; n < 2; n++) {
			OK(kurma_ensure_directory(worlds[n].client, AT("/home/%d/d/e", seed), 0755));
			make(&worlds[n], text("/home/%d/a", seed), "start");
			OK(kurma_symlink(worlds[n].client, "d", text("/home/%d/link", seed)));
		}
		for (int vector = 0; vector < VECTORS; vector++) {
			step first[STEPS], second[STEPS];
			for (int n = 0; n < STEPS; n++)
				first[n] = second[n] = random_step(seed);
			/* After what fails the rest is another vector. */
			for (size_t from = 0; from < STEPS;) {
				kurma_result one = play(nfs, first + from, STEPS - from);
				kurma_result other = play(local, second + from, STEPS - from);
				const step *failed = &first[from + one.done];
				if (one.done != other.done || one.unknown || other.unknown || one.index != other.index ||
				    (one.status && !is_same_failure(failed, one.status, other.status))) {
					fprintf(stderr, "seed %d, vector %d: %zu %s, but here %zu %s\n", seed, vector, one.done,
						kurma_strerror(&one), other.done, kurma_strerror(&other));
					die(__FILE__, __LINE__, "the same everywhere", NULL);
				}
				for (size_t n = from; n < from + one.done; n++)
					CHECK(strcmp(told(&first[n]), told(&second[n])) == 0);
				successes += one.done;
				failures += one.status != 0;
				from += one.done + (one.status != 0);
			}
			CHECK(tree(nfs, seed) == tree(local, seed));
		}
	}
	CHECK(failures > 500 && successes > 500);
	OK(kurma_close(nfs));
	OK(kurma_close(local));
}

const test_case both_cases[] = {
	CASE(random_vectors_do_the_same_everywhere),
	{ NULL, NULL },
};
