-- The run's settings: what it is of, its options, its machine.
-- run/folder/settings.h says what there is.
SELECT key, value AS text FROM runs WHERE key NOT LIKE '%.sums' AND key NOT LIKE 'memory.%'
ORDER BY key
