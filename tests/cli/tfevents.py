#!/usr/bin/env python3
"""tfevents.py FILE...: the events in TensorBoard's files, a line each: "version TEXT", "start STEP", or "STEP TAG VALUE". Reads TFRecords
and the few Protocol Buffers' fields by itself, with Python's own modules alone; exits 1 at a record whose checksums differ."""
import struct
import sys

TABLE = []
for i in range(256):
    for _ in range(8):
        i = i >> 1 ^ (0x82F63B78 if i & 1 else 0)
    TABLE.append(i)


def masked(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ TABLE[(crc ^ byte) & 0xFF]
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def fields(data):
    """(number, value) of a message."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            value |= (data[at] & 0x7F) << shift
            at, shift = at + 1, shift + 7
            if data[at - 1] < 0x80:
                return value

    while at < len(data):
        key = varint()
        kind = key & 7
        if kind == 0:
            value = varint()
        else:
            n = {1: 8, 5: 4}.get(kind) or varint()
            value, at = data[at:at + n], at + n
            assert len(value) == n and kind in (1, 2, 5)
            if kind != 2:
                value, = struct.unpack("<d" if kind == 1 else "<f", value)
        yield key >> 3, value


for name in sys.argv[1:]:
    with open(name, "rb") as f:
        while head := f.read(12):
            length, crc = struct.unpack("<QI", head)
            data = f.read(length)
            if crc != masked(head[:8]) or struct.pack("<I", masked(data)) != f.read(4):
                sys.exit(f"{name}: a damaged record before byte {f.tell()}")
            event = dict(fields(data))
            assert 1e9 < event[1] < 1e10
            if 3 in event:
                print("version", event[3].decode())
            elif 7 in event:
                print("start", event[2], dict(fields(event[7]))[1])
            else:
                for number, value in fields(event[5]):
                    v = dict(fields(value))
                    assert number == 1 and set(v) == {1, 2}
                    print(event[2], v[1].decode(), repr(v[2]))
