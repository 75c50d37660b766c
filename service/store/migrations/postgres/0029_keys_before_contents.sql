-- The wrapped key of a file lies before its small content where both come together: key_id is then
-- the id of small_contents, negative, and the blob_id is row:, the id in 12 digits, a plus sign and
-- random digits. No table changes: the number keeps older programs away, which do not know it.
SELECT 1;
