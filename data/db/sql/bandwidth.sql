-- How fast each device was, while a transfer was under way.
SELECT r.device, d.path, r.link, r.phase, r.direction, r.bytes, r.busy_seconds,
    r.bytes_per_second
FROM device_rate r LEFT JOIN devices d USING (device)
ORDER BY r.device, r.link, r.phase, r.direction
