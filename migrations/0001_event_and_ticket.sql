-- What came in, and what it is about.

-- An event is the fact in a verified delivery. However often a sender repeats it, one row stands here.
create table event (
    event_id uuid primary key,
    source text not null,
    -- The sender's delivery or event id, or a key built from the body where it sends none.
    dedupe_key text not null,
    -- The bytes that were signed, exactly. Never jsonb: `1e131071` costs 128 KiB a read there,
    -- and NUL or a lone surrogate is refused, which would lose the event.
    body bytea not null,
    -- A second key of the same fact, where the sender's id is not covered by its signature: a
    -- captured request played again under a new id is still told as a repeat.
    guard_key text,
    event_type text not null,
    state text not null,
    -- Why it could not be read; only of quarantined events.
    fault text,
    -- The help desk's id of the ticket in it; null when quarantined.
    external_id text,
    -- The job that was made for it; null when quarantined.
    job_id uuid,
    -- By the sender's clock, where its payload says so.
    occurred_at timestamptz,
    received_at timestamptz not null default now(),
    constraint event_state check (state in ('accepted', 'quarantined')),
    constraint event_accepted_has_job check ((state = 'accepted') = (job_id is not null)),
    constraint event_accepted_has_ticket check ((state = 'accepted') = (external_id is not null)),
    constraint event_quarantined_has_fault check ((state = 'quarantined') = (fault is not null)),
    -- Serves the dedupe of every delivery: `insert … on conflict do nothing` in ingest/write.rs.
    constraint event_once unique (source, dedupe_key)
);

-- Serves the same insert for senders whose delivery id is not signed.
create unique index event_once_by_guard on event (source, guard_key) where guard_key is not null;

-- Serves the operator's list of what could not be read.
create index event_quarantined on event (received_at) where state = 'quarantined';

-- A ticket is our snapshot of an object in a help desk.
create table ticket (
    ticket_id uuid primary key,
    source text not null,
    external_id text not null,
    subject text not null,
    body text not null,
    requester text not null,
    labels text[] not null,
    external_priority text not null,
    url text not null,
    -- When the newest event that shaped this snapshot happened: an older one must not overwrite it.
    occurred_at timestamptz,
    -- One more with every event that changed the snapshot.
    version int not null default 1,
    -- The classification of the newest snapshot; its row holds the verdict. A slow verdict about an
    -- older snapshot must not replace it, so the version that it read stands beside it.
    classification_id uuid,
    classified_version int,
    created_at timestamptz not null default now(),
    updated_at timestamptz not null default now(),
    constraint ticket_once unique (source, external_id)
);
