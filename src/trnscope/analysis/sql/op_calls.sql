-- Executions per op: how often each op was dispatched and how many launches that caused.
--
-- op          aten name with overload, or name of a compiled graph
-- calls       dispatches recorded
-- executions  launches they caused
-- views       dispatches that were views: no launch, no device time
-- first_uses  launches that had to load their program first
SELECT
    o.op,
    count(*) AS calls,
    count(e.exec_id) AS executions,
    count(*) FILTER (WHERE o.is_view) AS views,
    count(*) FILTER (WHERE e.first_use) AS first_uses
FROM OpRecord AS o
LEFT JOIN Execution AS e USING (op_id)
GROUP BY o.op
ORDER BY executions DESC, calls DESC, o.op
