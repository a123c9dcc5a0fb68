//! The stream: every sample ticket as a signed webhook, some of them twice, one with a bad
//! signature.

use std::collections::BTreeMap;
use std::time::Duration;

use chrono::Utc;
use reqwest::StatusCode;
use serde_json::Value;

use super::super::CliError;
use super::super::client::Client;
use super::stage::Stage;
use crate::simulator::deliveries::{SampleDelivery, sample_delivery, tickets};

/// Between two deliveries: a busy morning.
const PACE: Duration = Duration::from_millis(45);
/// Every so many deliveries, one is sent again, as senders do that did not hear our answer.
const REPEAT_EVERY: usize = 9;
/// Which delivery is sent once more with a bad signature.
const FORGED: usize = 5;

/// What the senders were answered.
#[derive(Clone, Debug, Default)]
pub(super) struct Sent {
    /// How many deliveries were answered in this way.
    pub(super) answers: BTreeMap<String, usize>,
}

impl Sent {
    fn note(&mut self, status: StatusCode, answer: &Value) {
        let word = answer.get("status").and_then(Value::as_str);
        let code = answer.get("code").and_then(Value::as_str);
        let text = format!("{} {}", status.as_u16(), word.or(code).unwrap_or("?"));
        *self.answers.entry(text).or_default() += 1;
    }
}

/// Plays the stream.
pub(super) async fn play(stage: &Stage) -> Result<Sent, CliError> {
    let client = Client::new(&stage.url(), None)?;
    let mut sent = Sent::default();
    for (number, ticket) in tickets().iter().enumerate() {
        let source = stage.source(number);
        let id = 1000 + number as u64;
        let delivery = sample_delivery(source, ticket, id, Utc::now()).map_err(anyhow::Error::from)?;
        if number == FORGED {
            post(&client, &forged(&delivery), &mut sent).await?;
        }
        post(&client, &delivery, &mut sent).await?;
        if number % REPEAT_EVERY == REPEAT_EVERY - 1 {
            post(&client, &delivery, &mut sent).await?;
        }
        tokio::time::sleep(PACE).await;
    }
    Ok(sent)
}

/// The same delivery with a body that was not signed.
fn forged(delivery: &SampleDelivery) -> SampleDelivery {
    let mut body = delivery.body.clone();
    body.push(b'\n');
    SampleDelivery { body, ..delivery.clone() }
}

async fn post(client: &Client, delivery: &SampleDelivery, sent: &mut Sent) -> Result<(), CliError> {
    let (status, answer) =
        client.deliver(&delivery.path, delivery.headers.clone(), delivery.body.clone()).await?;
    sent.note(status, &answer);
    Ok(())
}
