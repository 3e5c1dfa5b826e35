"""Files that are read from front to back by small reads."""

from kurma import Write

LENGTH = (4 << 20) + 5
CONTENT = (bytes(range(251)) * (LENGTH // 251 + 1))[:LENGTH]


def test_a_file_is_read_from_front_to_back_in_few_round_trips(nfs_world):
    client = nfs_world.client
    client.write_files({"a": CONTENT})
    file, parts = client.open("a"), []
    with nfs_world.spending() as spent:
        while part := client.read(file, 4096):
            parts.append(part)
    assert b"".join(parts) == CONTENT
    assert spent.round_trips <= 20, "instead of 1025"
    assert spent.bytes_in < LENGTH * 5 // 4, "hardly anything is read twice"
    client.close_file(file)


def test_of_a_file_that_is_read_here_and_there_nothing_else_is_read(nfs_world):
    client = nfs_world.client
    client.write_files({"a": CONTENT})
    file = client.open("a")
    with nfs_world.spending() as spent:
        for number in range(50):
            place = number * 7919 % 50 * 80_000
            assert client.pread(file, place, 1000) == CONTENT[place : place + 1000]
    assert spent.bytes_in < 50 * 1500
    client.close_file(file)


def test_what_is_written_while_the_file_is_read_ahead_is_read(world, client):
    other, data = world.another(), bytearray(CONTENT)
    for name, writer in (("a", other), ("b", client)):
        client.write_files({name: data})
        file = client.open(name)
        for part in range(100):
            start = part * 5000
            assert client.read(file, 5000) == data[start : start + 5000]
            # Surely read ahead already.
            place = start + 5000 + 17
            data[place] = part
            writer.vwrite([Write(name, bytes([part]), place)])
        client.close_file(file)
