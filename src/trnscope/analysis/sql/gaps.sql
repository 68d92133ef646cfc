-- Gaps of each stream: when it had nothing to run between two of its executions, and what it waited for.
--
-- A gap runs from the moment all earlier executions of the stream have ended to the start of the next one. Its first
-- part, until the host had submitted that next execution, is the host's; the rest is launch latency or another
-- stream's event. The time before the first execution of the window is no gap.
--
-- device, stream   where
-- before_exec_id   execution that ended last before the gap
-- after_exec_id, after_op  execution that ended the gap, and its op
-- start_ns         start of the gap, virtual device clock
-- gap_ns = host_ns + launch_ns
WITH ordered AS (
    SELECT
        e.device,
        e.stream,
        e.exec_id,
        coalesce(o.op, e.name) AS op,
        e.submit_ns,
        e.start_ns,
        max(e.end_ns) OVER earlier AS idle_from_ns,
        arg_max(e.exec_id, (e.end_ns, e.exec_id)) OVER earlier AS before_exec_id
    FROM Execution AS e
    LEFT JOIN OpRecord AS o USING (op_id)
    WINDOW earlier AS (
        PARTITION BY e.device, e.stream ORDER BY e.start_ns, e.exec_id
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    )
)

SELECT
    device,
    stream,
    before_exec_id,
    exec_id AS after_exec_id,
    op AS after_op,
    idle_from_ns AS start_ns,
    start_ns - idle_from_ns AS gap_ns,
    least(greatest(submit_ns - idle_from_ns, 0), start_ns - idle_from_ns) AS host_ns,
    start_ns - greatest(least(submit_ns, start_ns), idle_from_ns) AS launch_ns
FROM ordered
WHERE start_ns > idle_from_ns
ORDER BY gap_ns DESC, device, stream, after_exec_id
