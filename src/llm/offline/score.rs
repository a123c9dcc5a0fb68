//! From vectors to a label and a confidence. Pure arithmetic.
//!
//! **The formula.** Vectors have unit length, so a dot product is a cosine.
//! - A text fits a label by `0.55 · best example + 0.25 · second best example + 0.2 · description`;
//!   without examples the description counts alone.
//! - A ticket counts half by its start as a whole and half by the one sentence that fits best,
//!   because examples are single sentences and the matter of a mail is often one of many.
//! - `share` is the best label's part in a softmax over all labels with temperature 0.045.
//! - `closeness` is 0 at a similarity of 0.15 or less and 1 at 0.40 or more, linear between.
//! - `confidence = share · closeness`, so it is high only for a text that is near to a label and
//!   nearer to it than to any other.
//!
//! The constants were chosen on a hand-made set (`tests.rs`), which also pins what they achieve.
//! Similarities are no probabilities: a threshold has to be checked against one's own tickets.

const BEST_EXAMPLE: f64 = 0.55;
const SECOND_EXAMPLE: f64 = 0.25;
const DESCRIPTION: f64 = 0.2;
const BEST_SENTENCE: f64 = 0.5;
const TEMPERATURE: f64 = 0.045;
const CLOSE_FROM: f64 = 0.15;
const CLOSE_FULL: f64 = 0.40;

/// The vectors of one label.
#[derive(Clone, Debug)]
pub(super) struct LabelVectors {
    /// Of its description.
    pub(super) description: Vec<Vec<f32>>,
    /// Of its examples.
    pub(super) examples: Vec<Vec<f32>>,
}

/// Where a ticket belongs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Ranking {
    /// Position of the nearest label.
    pub(super) best: usize,
    /// Position of the next one.
    pub(super) runner_up: usize,
    /// How near the best is.
    pub(super) similarity: f64,
    /// 0 to 1, by the formula above.
    pub(super) confidence: f64,
}

/// Ranks the labels for a ticket, given as a whole and then sentence by sentence; `None` without a label or without a text. Ties go to the label
/// that stands first in the taxonomy.
pub(super) fn rank(labels: &[LabelVectors], texts: &[Vec<f32>]) -> Option<Ranking> {
    let scores: Vec<f64> = labels.iter().map(|label| ticket_score(label, texts)).collect();
    let best = first_highest(&scores, None)?;
    texts.first()?;
    let runner_up = first_highest(&scores, Some(best)).unwrap_or(best);
    let parts: f64 = scores.iter().map(|score| ((score - scores[best]) / TEMPERATURE).exp()).sum();
    let closeness = ((scores[best] - CLOSE_FROM) / (CLOSE_FULL - CLOSE_FROM)).clamp(0.0, 1.0);
    // Two digits: the last bits differ between processors.
    let confidence = (closeness / parts * 100.0).round() / 100.0;
    Some(Ranking { best, runner_up, similarity: scores[best], confidence })
}

fn ticket_score(label: &LabelVectors, texts: &[Vec<f32>]) -> f64 {
    let mut all = texts.iter().map(|text| text_score(label, text));
    let whole = all.next().unwrap_or_default();
    match all.reduce(f64::max) {
        Some(best) => (1.0 - BEST_SENTENCE) * whole + BEST_SENTENCE * best,
        None => whole,
    }
}

fn text_score(label: &LabelVectors, text: &[f32]) -> f64 {
    let nearness = |vectors: &[Vec<f32>]| {
        let mut all: Vec<f64> = vectors.iter().map(|vector| cosine(vector, text)).collect();
        all.sort_by(|a, b| b.total_cmp(a));
        all
    };
    let examples = nearness(&label.examples);
    let description = nearness(&label.description).first().copied().unwrap_or_default();
    match examples.as_slice() {
        [] => description,
        [only] => (BEST_EXAMPLE + SECOND_EXAMPLE) * only + DESCRIPTION * description,
        [best, second, ..] => BEST_EXAMPLE * best + SECOND_EXAMPLE * second + DESCRIPTION * description,
    }
}

fn cosine(a: &[f32], b: &[f32]) -> f64 {
    a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
}

fn first_highest(scores: &[f64], except: Option<usize>) -> Option<usize> {
    let others = scores.iter().enumerate().filter(|(at, _)| Some(*at) != except);
    others.reduce(|best, next| if next.1 > best.1 { next } else { best }).map(|(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn label(description: [f32; 2], examples: &[[f32; 2]]) -> LabelVectors {
        let examples = examples.iter().map(|vector| vector.to_vec()).collect();
        LabelVectors { description: vec![description.to_vec()], examples }
    }

    #[test]
    fn a_text_near_to_one_label_alone_is_sure() {
        let labels = [label([1.0, 0.0], &[[1.0, 0.0]]), label([0.0, 1.0], &[])];
        let ranking = rank(&labels, &[vec![1.0, 0.0]]).expect("two labels");
        assert_eq!((ranking.best, ranking.runner_up, ranking.confidence), (0, 1, 1.0));
    }

    #[test]
    fn a_text_between_two_labels_is_unsure_and_goes_to_the_first() {
        let labels = [label([1.0, 0.0], &[]), label([0.0, 1.0], &[])];
        let half = std::f32::consts::FRAC_1_SQRT_2;
        let ranking = rank(&labels, &[vec![half, half]]).expect("two labels");
        assert_eq!((ranking.best, ranking.confidence), (0, 0.5));
    }

    #[test]
    fn a_text_far_from_every_label_has_no_confidence() {
        let labels = [label([1.0, 0.0], &[]), label([1.0, 0.0], &[])];
        let ranking = rank(&labels, &[vec![0.0, 1.0]]).expect("two labels");
        assert_eq!(ranking.confidence, 0.0);
    }

    #[test]
    fn nothing_is_ranked_without_labels_or_texts() {
        assert_eq!(rank(&[], &[vec![1.0]]), None);
        assert_eq!(rank(&[label([1.0, 0.0], &[])], &[]), None);
    }
}
