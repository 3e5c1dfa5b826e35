/* Attributes. */
#include "suite.h"

static void attributes_of_250_files_come_in_one_round_trip_and_only_those_wanted(world *w)
{
	kurma_write_arg *writes = room(250, sizeof *writes);
	kurma_getattr_arg *gets = room(250, sizeof *gets);
	for (int n = 0; n < 250; n++) {
		writes[n] = whole(text("/home/%d", n), 0640, text("%*s", n, ""));
		gets[n] = (kurma_getattr_arg){ .file = writes[n].file, .wanted = KURMA_SIZE | KURMA_MODE };
	}
	OK(kurma_vwrite(w->client, writes, 250));
	COSTS(1, kurma_vgetattrs(w->client, gets, 250));
	kurma_attributes *last = &gets[249].attributes;
	CHECK(last->present == (KURMA_SIZE | KURMA_MODE) && last->size == 249 && last->mode == 0640 && last->kind == 0);
	kurma_attributes all;
	OK(kurma_stat(w->client, "/home/3", &all));
	CHECK((all.present | KURMA_DEVICE) == KURMA_STAT && all.kind == KURMA_FILE && all.links == 1);
	CHECK(all.uid == w->user && all.owner_name[0] == 0 && all.modified.seconds > 1000000000);
}

static void mode_owner_times_and_size_of_100_files_are_set_in_one_round_trip(world *w)
{
	const kurma_time time = { .seconds = 1000000000, .nanoseconds = 5 };
	kurma_write_arg writes[100];
	kurma_setattr_arg sets[100];
	/* Only the superuser gives files away. */
	uint32_t owner = w->user == 0 ? 1000 : w->user;
	for (int n = 0; n < 100; n++) {
		writes[n] = whole(text("/home/%d", n), 0640, "long enough");
		sets[n] = (kurma_setattr_arg){ .file = writes[n].file,
					       .attributes = { .set = KURMA_MODE | KURMA_OWNER | KURMA_SIZE | KURMA_MODIFIED,
							       .now = KURMA_ACCESSED, .mode = 0600, .uid = owner, .size = 4,
							       .modified = time } };
		if (w->user == 0) {
			sets[n].attributes.set |= KURMA_GROUP;
			sets[n].attributes.gid = 1001;
		}
	}
	OK(kurma_vwrite(w->client, writes, 100));
	COSTS(1, kurma_vsetattrs(w->client, sets, 100));
	kurma_attributes got;
	OK(kurma_stat(w->client, "/home/99", &got));
	CHECK(got.mode == 0600 && got.size == 4 && got.uid == owner && (w->user || got.gid == 1001));
	CHECK(got.modified.seconds == time.seconds && got.modified.nanoseconds == 5);
	CHECK(got.accessed.seconds > time.seconds);
}

static void links_are_followed_or_not_as_asked(world *w)
{
	OK(kurma_symlink(w->client, "to", "/home/link"));
	OK(kurma_symlink(w->client, "0", "/home/to"));
	make(w, "/home/0", "x");
	kurma_getattr_arg gets[] = {
		{ .file = { .path = "/home/link" }, .wanted = KURMA_KIND | KURMA_SIZE, .flags = KURMA_NOFOLLOW },
		{ .file = { .path = "/home/link" }, .wanted = KURMA_KIND | KURMA_SIZE },
	};
	OK(kurma_vgetattrs(w->client, gets, 2));
	CHECK(gets[0].attributes.kind == KURMA_SYMBOLIC_LINK && gets[0].attributes.size == 2);
	CHECK(gets[1].attributes.kind == KURMA_FILE && gets[1].attributes.size == 1);
	OK(kurma_chmod(w->client, "/home/link", 0604));
	kurma_attributes got;
	OK(kurma_stat(w->client, "/home/0", &got));
	CHECK(got.mode == 0604);
	kurma_setattr_arg set = { .file = { .path = "/home/link" }, .flags = KURMA_NOFOLLOW,
				  .attributes = { .set = KURMA_MODIFIED, .modified = { .seconds = 7 } } };
	OK(kurma_vsetattrs(w->client, &set, 1));
	OK(kurma_lstat(w->client, "/home/link", &got));
	CHECK(got.modified.seconds == 7);
	OK(kurma_stat(w->client, "/home/link", &got));
	CHECK(got.modified.seconds != 7);
}

const test_case attribute_cases[] = {
	CASE(attributes_of_250_files_come_in_one_round_trip_and_only_those_wanted),
	CASE(mode_owner_times_and_size_of_100_files_are_set_in_one_round_trip),
	CASE(links_are_followed_or_not_as_asked),
	{ NULL, NULL },
};
