-- The devices: where they are, of what, how many bytes.
SELECT device, path, backend, disk, bytes FROM devices ORDER BY device
