//! The encoder at work: weights loaded on first use, labels embedded once per taxonomy.

use std::sync::{Arc, Mutex, PoisonError};

use pocket_encoder::Encoder;
use serde_json::json;
use tokio::time::Instant;

use super::score::{self, LabelVectors, Ranking};
use super::words;
use crate::domain::Taxonomy;
use crate::llm::{Answer, Failure, LaneFault, Request};

/// The name under which classifications of this lane are stored.
const MODEL: &str = "pocket-encoder/minilm-l3-q4";
/// The encoder reads 128 tokens, about 500 characters of English, and drops the rest.
const TEXT_CHARS_MAX: usize = 450;
/// Shorter sentences are greetings.
const SENTENCE_CHARS_MIN: usize = 12;
/// The encoder's time is linear in the text: the first sentences carry the matter.
const SENTENCES_MAX: usize = 5;

/// The offline classifier of one lane. Weights are shared by all lanes of the process.
#[derive(Debug, Default)]
pub(crate) struct Offline {
    labels: Arc<Mutex<Option<Known>>>,
}

/// The vectors of the taxonomy that was asked for last.
#[derive(Clone, Debug)]
struct Known {
    taxonomy: Taxonomy,
    vectors: Arc<[LabelVectors]>,
}

impl Offline {
    /// A classifier; nothing is loaded yet. Fails in a binary without the encoder only.
    #[expect(clippy::unnecessary_wraps, reason = "the build without the encoder fails here")]
    pub(crate) fn build(_lane: &str) -> Result<Self, LaneFault> {
        Ok(Self::default())
    }

    /// Classifies on a blocking thread: the arithmetic takes milliseconds of a core. A dropped
    /// future leaves the thread to finish and drops its answer.
    pub(crate) async fn classify(&self, request: &Request<'_>) -> Result<Answer, Failure> {
        let started = Instant::now();
        let (subject, body) = (request.ticket.subject.to_owned(), request.ticket.body.to_owned());
        let (taxonomy, labels) = (request.taxonomy.clone(), Arc::clone(&self.labels));
        let work = move || classify(&subject, &body, &taxonomy, &labels);
        let completion = tokio::task::spawn_blocking(work)
            .await
            .map_err(|stopped| Failure::EncoderFailed(stopped.to_string()))??;
        Ok(Answer {
            completion,
            model: MODEL.to_owned(),
            usage: None,
            latency: started.elapsed(),
            request_id: None,
        })
    }
}

fn classify(
    subject: &str,
    body: &str,
    taxonomy: &Taxonomy,
    labels: &Mutex<Option<Known>>,
) -> Result<String, Failure> {
    let encoder = Encoder::new().map_err(failed)?;
    let vectors = label_vectors(&encoder, taxonomy, labels)?;
    let texts = texts(subject, body);
    let ranking =
        if texts.is_empty() { None } else { score::rank(&vectors, &encoder.embed(&texts).map_err(failed)?) };
    // A ticket without words gets the last label, by custom the one for the rest, without trust.
    let last = taxonomy.categories().len() - 1;
    let ranking =
        ranking.unwrap_or(Ranking { best: last, runner_up: last, similarity: 0.0, confidence: 0.0 });
    let key = |at: usize| taxonomy.categories()[at].key.as_str();
    let text = format!("{subject}\n{body}");
    let (priority, ground) = words::priority(&text);
    let mut reasons = vec![format!(
        "nearest label {} (similarity {:.2}), then {}",
        key(ranking.best),
        ranking.similarity,
        key(ranking.runner_up)
    )];
    reasons.extend(ground.map(|word| format!("priority {priority}: the text says {word:?}")));
    let answer = json!({
        "category": key(ranking.best),
        "priority": priority.as_str(),
        "sentiment": words::sentiment(&text).as_str(),
        "language": words::language(&text),
        "summary": words::summary(subject, body),
        "confidence": ranking.confidence,
        "reasons": reasons,
    });
    Ok(answer.to_string())
}

/// Embeds each description and example once; a changed taxonomy is embedded anew.
fn label_vectors(
    encoder: &Encoder,
    taxonomy: &Taxonomy,
    labels: &Mutex<Option<Known>>,
) -> Result<Arc<[LabelVectors]>, Failure> {
    // Held while embedding, so that the first calls after a start do the work once.
    let mut known = labels.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = known.as_ref().filter(|known| known.taxonomy == *taxonomy) {
        return Ok(Arc::clone(&known.vectors));
    }
    let embed = |texts: &[String]| encoder.embed(texts).map_err(failed);
    let vectors: Arc<[LabelVectors]> = taxonomy
        .categories()
        .iter()
        .map(|category| {
            let examples: Vec<String> = category.examples.iter().flat_map(|text| embeddable(text)).collect();
            let description = format!("{}: {}", category.key.replace('_', " "), category.description);
            let description: Vec<String> = embeddable(&description).into_iter().collect();
            Ok(LabelVectors { description: embed(&description)?, examples: embed(&examples)? })
        })
        .collect::<Result<_, Failure>>()?;
    *known = Some(Known { taxonomy: taxonomy.clone(), vectors: Arc::clone(&vectors) });
    Ok(vectors)
}

/// The texts to embed: the start of the ticket as a whole, then its first sentences one by one.
fn texts(subject: &str, body: &str) -> Vec<String> {
    let whole = embeddable(&format!("{}\n{}", subject.trim(), body.trim()));
    let sentences = sentences(body);
    whole.into_iter().chain(embeddable(subject)).chain(sentences.take(SENTENCES_MAX)).collect()
}

fn sentences(body: &str) -> impl Iterator<Item = String> {
    let ends = |c: char| matches!(c, '.' | '!' | '?' | '\n' | '。');
    body.split_inclusive(ends)
        .filter(|part| part.trim().chars().count() >= SENTENCE_CHARS_MIN)
        .filter_map(embeddable)
}

/// A text as the encoder takes it: short and not blank.
fn embeddable(text: &str) -> Option<String> {
    let kept: String = text.trim().chars().take(TEXT_CHARS_MAX).collect();
    (!kept.trim().is_empty()).then_some(kept)
}

fn failed(error: pocket_encoder::Error) -> Failure {
    Failure::EncoderFailed(error.to_string())
}
