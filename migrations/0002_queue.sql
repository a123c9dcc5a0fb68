-- The job queue. It knows nothing of tickets: a job has a kind, a subject id and small arguments.

-- Queued and running jobs only: the statement that ends a job deletes it here and writes
-- job_history, so that claims scan live rows. Payloads stand elsewhere, so that the row stays
-- narrow and an update stays in its page.
create table job (
    job_id uuid primary key,
    -- The fence: one more at every claim, never lowered. Whoever does not hold it changes nothing.
    lease_id bigint not null default 0,
    -- Due. A retry is a queued job with a later run_at, so nothing has to promote it.
    run_at timestamptz not null default now(),
    created_at timestamptz not null default now(),
    first_claimed_at timestamptz,
    -- Of the current lease, by this database's clock.
    claimed_at timestamptz,
    deadline_at timestamptz,
    worker_id uuid,
    -- What the job is about; the queue does not look inside.
    subject_id uuid not null,
    -- The dead job that an operator replayed as this one.
    replay_of uuid,
    -- Counted at the claim, so that a crash costs one, too; given back by snooze and hand-back.
    attempt smallint not null default 0,
    attempts_max smallint not null,
    crash_count smallint not null default 0,
    -- 1 is served first, 4 last.
    priority smallint not null default 2,
    state text not null default 'queued',
    queue text not null,
    kind text not null,
    source text not null,
    args text not null default '{}',
    -- Of the newest attempt that failed.
    error_class text,
    error text,
    constraint job_state check (state in ('queued', 'running')),
    constraint job_running_has_lease check (
        (state = 'running') = (worker_id is not null)
        and (state = 'running') = (claimed_at is not null)
        and (state = 'running') = (deadline_at is not null)
    ),
    constraint job_attempt check (attempts_max >= 1 and attempt between 0 and attempts_max),
    constraint job_priority check (priority between 1 and 4),
    constraint job_args_size check (octet_length(args) <= 4096),
    constraint job_error_size check (char_length(error) <= 500)
) with (
    fillfactor = 80,
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0,
    autovacuum_analyze_threshold = 5000
);

-- Serves the claim (queue/claim.rs), in its order.
create index job_claim on job (queue, priority, run_at, job_id) where state = 'queued';
-- Serves the reaper's search for overdue leases (queue/reap.rs).
create index job_deadline on job (deadline_at) where state = 'running';
-- Serves the reaper's search for jobs of dead workers (queue/reap.rs).
create index job_worker on job (worker_id) where state = 'running';
-- Serves "the jobs of this ticket" (queue/inspect.rs).
create index job_subject on job (subject_id);

-- Ended jobs, by day of birth: a UUIDv7 carries its day, so a lookup by id touches one partition,
-- and retention drops whole partitions.
create table job_history (
    job_id uuid not null,
    lease_id bigint not null,
    created_at timestamptz not null,
    first_claimed_at timestamptz,
    finished_at timestamptz not null default now(),
    subject_id uuid not null,
    replay_of uuid,
    attempt smallint not null,
    attempts_max smallint not null,
    crash_count smallint not null,
    priority smallint not null,
    state text not null,
    queue text not null,
    kind text not null,
    source text not null,
    args text not null,
    error_class text,
    error text,
    constraint job_history_state check (state in ('succeeded', 'dead', 'cancelled')),
    primary key (job_id)
) partition by range (job_id);

-- Serves "the jobs of this ticket" (queue/inspect.rs).
create index job_history_subject on job_history (subject_id);
-- Serves the list of jobs that did not end well (queue/inspect.rs): few among many, so that the search
-- for them does not walk the whole history.
create index job_history_not_succeeded on job_history (state, job_id) where state <> 'succeeded';

-- One row a try, written when it ends.
create table attempt (
    job_id uuid not null,
    lease_id bigint not null,
    attempt smallint not null,
    worker_id uuid not null,
    started_at timestamptz not null,
    finished_at timestamptz not null default now(),
    outcome text not null,
    error_class text,
    error text,
    -- What the handler wants remembered of this try, such as lane and model.
    context text,
    constraint attempt_outcome check (
        outcome in ('succeeded', 'retried', 'snoozed', 'dead', 'crashed', 'handed_back', 'cancelled')
    ),
    primary key (job_id, lease_id)
) partition by range (job_id);

-- Catches jobs whose day has no partition (a clock far off), so that ending a job never fails for it.
create table job_history_default partition of job_history default;
create table attempt_default partition of attempt default;

-- The smallest UUIDv7 of a day: 48 bits of milliseconds since 1970, then zeros (RFC 9562 section 5.7).
create function uuid_v7_floor(day date) returns uuid
language sql immutable strict parallel safe as $$
    select (lpad(to_hex((extract(epoch from day::timestamp) * 1000)::bigint), 12, '0')
        || '00000000000000000000')::uuid
$$;

-- Makes the partitions from today to days_ahead from now. Safe to call at any time, from anywhere:
-- an advisory lock of the transaction keeps two callers apart.
create function ensure_job_partitions(days_ahead int) returns int
language plpgsql as $$
declare
    day date;
    made int := 0;
    parent text;
    child text;
begin
    perform pg_advisory_xact_lock(hashtext('hooktriage.ensure_job_partitions'));
    for day in select generate_series(
        (now() at time zone 'UTC')::date, (now() at time zone 'UTC')::date + days_ahead, interval '1 day'
    )::date loop
        foreach parent in array array['job_history', 'attempt'] loop
            child := parent || '_' || to_char(day, 'YYYYMMDD');
            if to_regclass(child) is null then
                begin
                    execute format(
                        'create table %I partition of %I for values from (%L) to (%L)',
                        child, parent, uuid_v7_floor(day), uuid_v7_floor(day + 1)
                    );
                    made := made + 1;
                exception when check_violation then
                    -- The default partition already holds rows of that day. They stay where they
                    -- are: found by every query, dropped by retention by hand.
                    raise warning 'partition % not made: its rows are in the default partition', child;
                end;
            end if;
        end loop;
    end loop;
    return made;
end
$$;

select ensure_job_partitions(7);

-- Jobs that cannot succeed, each with its whole story. A replay marks a letter, never deletes it.
create table dead_letter (
    dead_letter_id uuid primary key,
    job_id uuid not null,
    lease_id bigint not null,
    queue text not null,
    kind text not null,
    source text not null,
    subject_id uuid not null,
    args text not null,
    priority smallint not null,
    attempts_max smallint not null,
    reason text not null,
    error_class text not null,
    error text not null,
    attempt smallint not null,
    crash_count smallint not null,
    replay_of uuid,
    job_created_at timestamptz not null,
    first_claimed_at timestamptz,
    dead_at timestamptz not null default now(),
    state text not null default 'open',
    replayed_at timestamptz,
    replayed_job_id uuid,
    constraint dead_letter_reason check (reason in ('permanent', 'exhausted', 'expired', 'poison')),
    constraint dead_letter_state check (state in ('open', 'replayed', 'discarded')),
    constraint dead_letter_replayed check (
        (state = 'replayed') = (replayed_job_id is not null)
        and (state = 'replayed') = (replayed_at is not null)
    ),
    -- A job dies once; also serves "the letter of this job".
    constraint dead_letter_once unique (job_id)
);

-- Serves the list and the replay by filter (queue/dead_letter.rs), newest first.
create index dead_letter_open on dead_letter (dead_letter_id) where state = 'open';
-- Serves the same by error class.
create index dead_letter_class on dead_letter (error_class, dead_letter_id);

-- One row a process, beaten every few seconds: a job row is not touched while its job runs.
create table worker (
    worker_id uuid primary key,
    host text not null,
    version text not null,
    started_at timestamptz not null default now(),
    seen_at timestamptz not null default now()
) with (fillfactor = 50);
