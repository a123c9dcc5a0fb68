//! Against an implementation that is not ours: the crate `standardwebhooks`.

use standardwebhooks::Webhook;

use super::*;

const KEY: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const BODIES: [&str; 4] =
    ["", r#"{"test": 2432232314}"#, "{\"a\":\"🧯 señor \u{2028}\"}\n", "plain text, no json"];

fn ours() -> Secret {
    Secret::parse(KEY, standard().key_encoding()).expect("valid")
}

#[test]
fn what_the_oracle_signs_is_believed() {
    let oracle = Webhook::new(KEY).expect("valid");
    for body in BODIES {
        let signature = oracle.sign("msg_1", 1_700_000_000, body.as_bytes()).expect("signed");
        let request = Request::new(
            &[
                ("webhook-id", "msg_1"),
                ("webhook-timestamp", "1700000000"),
                ("webhook-signature", &signature),
            ],
            body,
        );
        assert!(request.check(&standard(), &[ours()], at(1_700_000_000)).is_ok(), "{body}");
    }
}

#[test]
fn what_we_sign_the_oracle_believes() {
    let oracle = Webhook::new(KEY).expect("valid");
    for body in BODIES {
        let request = Request::signed(&standard(), &ours(), body, Utc::now());
        assert!(oracle.verify(body.as_bytes(), &request.headers).is_ok(), "{body}");
        let changed = format!("{body} ");
        assert!(oracle.verify(changed.as_bytes(), &request.headers).is_err(), "{body}");
    }
}
