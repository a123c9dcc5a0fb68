//! Whole deliveries through whole sources.
