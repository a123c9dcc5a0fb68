-- What a lane said of a ticket, checked, and what we decided from it.
create table classification (
    classification_id uuid primary key,
    ticket_id uuid not null references ticket (ticket_id),
    job_id uuid not null,
    -- The version of the ticket that it is about.
    ticket_version int not null,
    -- Null when no usable answer came and a person has to look.
    category text,
    priority text not null,
    sentiment text,
    language text not null,
    summary text not null,
    confidence double precision not null,
    reasons text[] not null,
    -- Why a person should look; empty when the verdict routes by itself.
    review text[] not null,
    destination text,
    lane text not null,
    model text not null,
    prompt_version text not null,
    taxonomy_version text not null,
    input_tokens int,
    output_tokens int,
    latency_ms int not null,
    -- The ticket was cut before the lane saw it.
    truncated boolean not null,
    created_at timestamptz not null default now(),
    constraint classification_priority check (priority in ('low', 'normal', 'high', 'urgent')),
    constraint classification_sentiment check (sentiment in ('negative', 'neutral', 'positive')),
    constraint classification_confidence check (confidence between 0 and 1),
    constraint classification_category_or_review check (category is not null or cardinality(review) > 0),
    -- A verdict is recorded once, however often its job ran; also serves the verdict of a job.
    constraint classification_once unique (job_id)
);

-- Serves the history of a ticket (store/classification.rs).
create index classification_ticket on classification (ticket_id, classification_id);
