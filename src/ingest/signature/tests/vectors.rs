//! Known answers: each was printed by a provider or computed outside with OpenSSL or Python.

use super::*;

#[test]
fn both_published_vectors_of_standard_webhooks_pass() {
    let vectors = [
        (
            "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
            "msg_p5jXN8AQM9LWM0D4loKWxJek",
            1_614_265_330,
            r#"{"test": 2432232314}"#,
            "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
        ),
        (
            "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD",
            "msg_27UH4WbU6Z5A5EzD8u03UvzRbpk",
            1_649_367_553,
            r#"{"email":"test@example.com","username":"test_user"}"#,
            "v1,tZ1I4/hDygAJgO5TYxiSd6Sd0kDW6hPenDe+bTa3Kkw=",
        ),
    ];
    for (key, id, time, body, signature) in vectors {
        let secret = Secret::parse(key, standard().key_encoding()).expect("valid secret");
        for (scheme, brand) in Preset::StandardWebhooks.schemes().iter().zip(["webhook", "svix"]) {
            let headers = [
                (format!("{brand}-id"), id.to_owned()),
                (format!("{brand}-timestamp"), time.to_string()),
                (format!("{brand}-signature"), signature.to_owned()),
            ];
            let headers = headers.each_ref().map(|(name, value)| (name.as_str(), value.as_str()));
            let request = Request::new(&headers, body);
            let verified = request.check(scheme, std::slice::from_ref(&secret), at(time)).expect("believed");
            assert_eq!(verified.delivery_id, DeliveryId::new(id));
            assert_eq!((verified.signed_at, verified.id_is_signed), (Some(at(time)), true));
        }
    }
}

#[test]
fn our_signer_makes_the_published_signature() {
    let secret = Secret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", standard().key_encoding());
    let id = DeliveryId::new("msg_p5jXN8AQM9LWM0D4loKWxJek").expect("id");
    let body = br#"{"test": 2432232314}"#;
    let unsigned = Unsigned { id: &id, method: &Method::POST, uri: &Uri::from_static("/"), body };
    let headers = sign(&standard(), &secret.expect("valid"), &unsigned, at(1_614_265_330)).expect("signed");
    assert_eq!(headers["webhook-signature"], "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    assert_eq!(headers["webhook-timestamp"], "1614265330");
    assert_eq!(headers["webhook-id"], "msg_p5jXN8AQM9LWM0D4loKWxJek");
}

#[test]
fn the_vector_of_githubs_documentation_passes() {
    let scheme = preset(Preset::Github);
    let secret = Secret::parse("It's a Secret to Everybody", scheme.key_encoding()).expect("valid secret");
    let signature = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
    let request = Request::new(&[("X-Hub-Signature-256", signature)], "Hello, World!");
    let verified = request.check(&scheme, &[secret], at(0)).expect("believed");
    assert_eq!((verified.delivery_id, verified.signed_at), (None, None));
}

const ZENDESK_KEY: &str = "dGhpc19zZWNyZXRfaXNfZm9yX3Rlc3Rpbmdfb25seQ==";

fn zendesk_request(signature: &str) -> Request {
    Request::new(
        &[
            ("X-Zendesk-Webhook-Signature", signature),
            ("X-Zendesk-Webhook-Signature-Timestamp", "2021-03-25T05:09:27Z"),
        ],
        r#"{"event":"ticket.updated","id":123}"#,
    )
}

#[test]
fn the_vector_of_zendesks_documentation_passes_with_the_key_as_it_stands() {
    let secret = Secret::unchecked(ZENDESK_KEY.as_bytes());
    let request = zendesk_request("S/RDdU2ERmj7LHDDoWJ2onPYH+t7/f2+LTM4dL7UiLM=");
    assert!(request.check(&preset(Preset::Zendesk), &[secret], at(1_616_648_967)).is_ok());
}

#[test]
fn zendesks_key_decoded_as_base64_is_refused() {
    let verbatim = Secret::unchecked(ZENDESK_KEY.as_bytes());
    let request = zendesk_request("ElGlCykjczJm8dAh5YJyfzGb6ttTqrYPkC81bFc/ZSk=");
    let refused = request.check(&preset(Preset::Zendesk), &[verbatim], at(1_616_648_967));
    assert_eq!(refused, Err(Refusal::NoMatch));
    let decoded = Secret::unchecked(b"this_secret_is_for_testing_only");
    assert!(request.check(&preset(Preset::Zendesk), &[decoded], at(1_616_648_967)).is_ok());
}

#[test]
fn the_vector_of_slacks_documentation_passes_through_a_spelled_out_scheme() {
    let body = "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow\
        &channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner\
        &command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands\
        %2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN\
        &trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c";
    let signature = "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503";
    let request =
        Request::new(&[("X-Slack-Signature", signature), ("X-Slack-Request-Timestamp", "1531420618")], body);
    let secret = Secret::unchecked(b"8f742231b10e8888abcd99yyyzzz85a5");
    let scheme = slack_spec().parse().expect("valid scheme");
    assert!(request.check(&scheme, &[secret], at(1_531_420_618)).is_ok());
}

#[test]
fn slacks_shape_with_a_signed_body_id_agrees_with_openssl() {
    let request = Request::new(
        &[
            ("X-Slack-Signature", "v0=0f5cf44783e927e9c080ef1d2602cea7ca7cad16f46dcf50e9d1d22879a1bb04"),
            ("X-Slack-Request-Timestamp", "1700000000"),
        ],
        r#"{"event":"ticket"}"#,
    );
    let secret = Secret::unchecked(b"8f742231b10e8888abcd99yyyzzz85a5");
    let verified = request.check(&slack_spec().parse().expect("valid"), &[secret], at(1_700_000_299));
    assert_eq!(verified.expect("believed").delivery_id, None);
}

#[test]
fn a_sha1_scheme_agrees_with_openssl() {
    let spec = SchemeSpec {
        header: "X-Hub-Signature".into(),
        prefix: text("sha1="),
        algorithm: text("sha1"),
        ..SchemeSpec::default()
    };
    let request = Request::new(
        &[("X-Hub-Signature", "sha1=3e004e8f3a4d85075e72ef035c8b2f0006e88336")],
        r#"{"ticket":{"id":7}}"#,
    );
    let secret = Secret::unchecked(b"a zammad token of ours");
    assert!(request.check(&spec.parse().expect("valid"), &[secret], at(0)).is_ok());
}

#[test]
fn a_sha512_scheme_in_base64_with_a_hex_key_agrees_with_python() {
    let spec = SchemeSpec {
        header: "X-Sig".into(),
        algorithm: text("sha512"),
        encoding: text("base64"),
        key_encoding: text("hex"),
        ..SchemeSpec::default()
    };
    let scheme = spec.parse().expect("valid");
    let signature =
        "sknd2IOZ/TLaDe87UmRJnLNNCa3B9WtZfOaeU4rZ3uaYCI5B/1Lq2Uo94sG8r6pWbGH7r8s+r+qn7jZGbYaK+g==";
    let secret = Secret::parse("00112233445566778899aabbccddeeff", scheme.key_encoding()).expect("valid");
    assert!(Request::new(&[("X-Sig", signature)], r#"{"a":1}"#).check(&scheme, &[secret], at(0)).is_ok());
}

#[test]
fn a_time_in_a_pair_of_the_signature_header_agrees_with_python() {
    let spec = SchemeSpec {
        header: "X-Dixa-Signature".into(),
        list: text("pairs"),
        key_encoding: text("hex"),
        template: text("{timestamp}.{body}"),
        timestamp: text("pair:t"),
        timestamp_format: text("unix-ms"),
        ..SchemeSpec::default()
    };
    let scheme = spec.parse().expect("valid");
    let secret = Secret::parse("00112233445566778899aabbccddeeff", scheme.key_encoding()).expect("valid");
    let good = "ed3295348a5af0719202dd301fd8efed3f09dcd4f19b1aacc359479a0da130e9";
    let check = |value: &str| {
        let request = Request::new(&[("X-Dixa-Signature", value)], r#"{"a":1}"#);
        request.check(&scheme, std::slice::from_ref(&secret), at(1_700_000_000))
    };
    assert!(check(&format!("t=1700000000000,v1={good}")).is_ok());
    assert!(check(&format!("t=1700000000000,v0=00,v1={},v1={good}", "00".repeat(32))).is_ok());
    assert_eq!(check(&format!("t=1700000000001,v1={good}")), Err(Refusal::NoMatch));
    assert!(matches!(check(&format!("v1={good}")), Err(Refusal::MalformedHeader { .. })));
    assert!(matches!(check(&format!("t=1700000000000,t=1,v1={good}")), Err(Refusal::MalformedHeader { .. })));
}

#[test]
fn a_scheme_over_method_and_address_uses_the_configured_address_alone() {
    let spec = SchemeSpec {
        header: "X-HubSpot-Signature-v3".into(),
        encoding: text("base64"),
        template: text("{method}{uri}{body}{timestamp}"),
        timestamp: text("header:X-HubSpot-Request-Timestamp"),
        timestamp_format: text("unix-ms"),
        public_url: text("https://hooks.example.com/"),
        ..SchemeSpec::default()
    };
    let mut request = Request::new(
        &[
            ("X-HubSpot-Signature-v3", "xNCBhEVo6QrNTl+xA59YZYzOqb+gqnEsy3FnI1wYig4="),
            ("X-HubSpot-Request-Timestamp", "1700000000000"),
            ("Host", "attacker.example"),
        ],
        r#"{"a":1}"#,
    );
    request.uri = Uri::from_static("/webhooks/crm?x=1");
    let (scheme, secret) =
        (spec.parse().expect("valid"), Secret::unchecked(b"yyyyyyyy-yyyy-yyyy-yyyy-yyyyyyyyyyyy"));
    assert!(request.check(&scheme, std::slice::from_ref(&secret), at(1_700_000_000)).is_ok());
    request.uri = Uri::from_static("/webhooks/crm?x=2");
    assert_eq!(request.check(&scheme, &[secret], at(1_700_000_000)), Err(Refusal::NoMatch));
}

#[test]
fn a_signed_time_in_the_body_is_checked_after_the_mac() {
    let spec = SchemeSpec {
        header: "Linear-Signature".into(),
        timestamp: text("body:/webhookTimestamp"),
        timestamp_format: text("unix-ms"),
        past_max: text("60s"),
        id: text("body:/webhookId"),
        ..SchemeSpec::default()
    };
    let (scheme, secret) = (spec.parse().expect("valid"), [Secret::unchecked(b"lin_wh_0123456789abcdef")]);
    let request = Request::new(
        &[("Linear-Signature", "01357980cc8ffe090be619b04c631e18a0ced60a6d6a9b9f02f2bd95c294e746")],
        r#"{"webhookTimestamp":1700000000000,"webhookId":"wh-1"}"#,
    );
    let verified = request.check(&scheme, &secret, at(1_700_000_060)).expect("believed");
    assert_eq!((verified.delivery_id, verified.id_is_signed), (DeliveryId::new("wh-1"), true));
    assert!(matches!(request.check(&scheme, &secret, at(1_700_000_061)), Err(Refusal::TooOld { .. })));
    for body in [r#"{"a":1}"#, "not json", r#"{"webhookTimestamp":1.7e12}"#, ""] {
        let timeless = Request::signed(&scheme, &secret[0], body, at(0));
        assert!(matches!(timeless.check(&scheme, &secret, at(0)), Err(Refusal::NoSignedTime(_))), "{body}");
    }
}
