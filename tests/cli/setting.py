# setting.py RUN [KEY VALUE]...: gives a run's database these settings, with their checksums, as a stranger would
import sqlite3
import sys


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ 0x82F63B78 * (crc & 1)
    return crc ^ 0xFFFFFFFF


run, *words = sys.argv[1:]
with sqlite3.connect(f"{run}/run.db") as db:
    for key, value in zip(words[::2], words[1::2], strict=True):
        db.execute("INSERT OR REPLACE INTO runs VALUES (?, ?, ?)", (key, value, crc32c(f"{key}\0{value}".encode())))
