//! From vectors to a label and a confidence. Pure arithmetic.
//!
//! **The formula.** Vectors have unit length, so a dot product is a cosine.
//! - A text fits a label by `0.55 · best example + 0.25 · second best example + 0.2 · description`;
//!   without examples the description counts alone.
//! - A ticket of several windows weighs its first twice as much as each later one, because the
//!   first holds the subject.
//! - `share` is the best label's part in a softmax over all labels with temperature 0.05.
//! - `closeness` is 0 at a similarity of 0.20 or less and 1 at 0.45 or more, linear between.
//! - `confidence = share · closeness`, so it is high only for a text that is near to a label and
//!   nearer to it than to any other.
//!
//! The constants were chosen on a hand-made set (`tests.rs`), which also pins what they achieve.
//! Similarities are no probabilities: a threshold has to be checked against one's own tickets.

const BEST_EXAMPLE: f64 = 0.55;
const SECOND_EXAMPLE: f64 = 0.25;
const DESCRIPTION: f64 = 0.2;
const FIRST_WINDOW: f64 = 2.0;
const TEMPERATURE: f64 = 0.05;
const CLOSE_FROM: f64 = 0.20;
const CLOSE_FULL: f64 = 0.45;

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

/// Ranks the labels for a ticket; `None` without a label or without a text. Ties go to the label
/// that stands first in the taxonomy.
pub(super) fn rank(labels: &[LabelVectors], windows: &[Vec<f32>]) -> Option<Ranking> {
    let scores: Vec<f64> = labels.iter().map(|label| ticket_score(label, windows)).collect();
    let best = first_highest(&scores, None)?;
    windows.first()?;
    let runner_up = first_highest(&scores, Some(best)).unwrap_or(best);
    let parts: f64 = scores.iter().map(|score| ((score - scores[best]) / TEMPERATURE).exp()).sum();
    let closeness = ((scores[best] - CLOSE_FROM) / (CLOSE_FULL - CLOSE_FROM)).clamp(0.0, 1.0);
    // Two digits: the last bits differ between processors.
    let confidence = (closeness / parts * 100.0).round() / 100.0;
    Some(Ranking { best, runner_up, similarity: scores[best], confidence })
}

fn ticket_score(label: &LabelVectors, windows: &[Vec<f32>]) -> f64 {
    let weights = windows.iter().enumerate().map(|(at, _)| if at == 0 { FIRST_WINDOW } else { 1.0 });
    let total: f64 = weights.clone().sum();
    windows.iter().zip(weights).map(|(window, weight)| weight * text_score(label, window)).sum::<f64>()
        / total
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
