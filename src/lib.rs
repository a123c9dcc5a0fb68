//! Signed help-desk webhooks in, triaged tickets out.
