-- Data quality: what is missing from the capture or was repaired in it.
--
-- kind    kebab-case id
-- count   how often
-- detail  one sentence with an example
SELECT kind, count, detail
FROM DataQuality
ORDER BY count DESC, kind
