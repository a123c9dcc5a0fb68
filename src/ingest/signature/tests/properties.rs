//! Whatever can be described can be signed and checked, and one changed bit is always seen.

use proptest::prelude::*;
use proptest::sample::select;

use super::*;

const NOW: i64 = 1_700_000_000;

/// Any scheme that configuration could describe and that carries everything in headers.
fn generic_scheme() -> impl Strategy<Value = Scheme> {
    let words = (
        select(vec!["sha256", "sha1", "sha512"]),
        select(vec!["hex", "base64"]),
        select(vec!["single", "spaced", "pairs"]),
        select(vec!["", "header:X-Time", "pair:t"]),
        select(vec!["unix", "unix-ms", "iso8601"]),
        select(vec!["", "header:X-Id"]),
        "[ -z|~]{1,6}",
        any::<bool>(),
    );
    words.prop_map(|(algorithm, encoding, list, time, format, id, glue, with_uri)| {
        let time = if list == "pairs" || time != "pair:t" { time } else { "" };
        let mut template = String::new();
        for (part, wanted) in
            [("{id}", !id.is_empty()), ("{timestamp}", !time.is_empty()), ("{method}{uri}", with_uri)]
        {
            if wanted {
                template.push_str(part);
                template.push_str(&glue);
            }
        }
        let given = |value: &str| (!value.is_empty()).then(|| value.to_owned());
        let spec = SchemeSpec {
            header: "X-Signature".into(),
            prefix: given(if list == "single" { "sig=" } else { "" }),
            list: text(list),
            algorithm: text(algorithm),
            encoding: text(encoding),
            template: Some(format!("{template}{{body}}")),
            timestamp: given(time),
            timestamp_format: if time.is_empty() { None } else { text(format) },
            id: given(id),
            public_url: text("https://hooks.example.com"),
            ..SchemeSpec::default()
        };
        spec.parse().expect("a valid scheme")
    })
}

fn any_scheme() -> impl Strategy<Value = Scheme> {
    let presets: Vec<Scheme> = Preset::ALL.into_iter().flat_map(Preset::schemes).collect();
    prop_oneof![select(presets), generic_scheme()]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_signed_is_believed(
        scheme in any_scheme(),
        key in proptest::collection::vec(any::<u8>(), 16..80),
        body in proptest::collection::vec(any::<u8>(), 0..300),
    ) {
        let key = Secret::unchecked(&key);
        let request = Request::signed(&scheme, &key, &body, at(NOW));
        let verified = request.check(&scheme, &[secret(7), key], at(NOW)).expect("believed");
        prop_assert_eq!(verified.secret_index, 1);
        prop_assert_eq!(verified.signed_at, scheme.has_signed_time().then(|| at(NOW)));
        if scheme.id_is_signed() {
            prop_assert_eq!(verified.delivery_id, DeliveryId::new("msg_test_1"));
        }
    }

    #[test]
    fn one_changed_bit_of_the_body_is_refused(
        scheme in any_scheme(),
        body in proptest::collection::vec(any::<u8>(), 1..300),
        at_bit in any::<proptest::sample::Index>(),
    ) {
        let mut request = Request::signed(&scheme, &secret(1), &body, at(NOW));
        let bit = at_bit.index(body.len() * 8);
        request.body[bit / 8] ^= 1 << (bit % 8);
        prop_assert_eq!(request.check(&scheme, &[secret(1)], at(NOW)), Err(Refusal::NoMatch));
    }

    #[test]
    fn one_changed_bit_of_the_key_is_refused(scheme in any_scheme(), bit in 0_usize..24 * 8) {
        let request = Request::signed(&scheme, &secret(1), "{}", at(NOW));
        let mut key = [1_u8; 24];
        key[bit / 8] ^= 1 << (bit % 8);
        let changed = Secret::unchecked(&key);
        prop_assert_eq!(request.check(&scheme, &[changed], at(NOW)), Err(Refusal::NoMatch));
    }

    /// One bit of any signed header: the signature, the time and, where it is signed, the id.
    /// Hexadecimal digits may change their case; that changes no byte of the MAC.
    #[test]
    fn one_changed_bit_of_a_signed_header_is_refused(
        scheme in any_scheme(),
        which in any::<proptest::sample::Index>(),
        at_bit in any::<proptest::sample::Index>(),
    ) {
        let mut request = Request::signed(&scheme, &secret(1), r#"{"a":1}"#, at(NOW));
        if !scheme.id_is_signed() {
            for name in ["x-id", "x-github-delivery", "x-zendesk-webhook-invocation-id"] {
                request.headers.remove(name);
            }
        }
        let names: Vec<HeaderName> = request.headers.keys().cloned().collect();
        let name = names[which.index(names.len())].clone();
        let mut value = request.headers[&name].as_bytes().to_vec();
        let bit = at_bit.index(value.len() * 8);
        value[bit / 8] ^= 1 << (bit % 8);
        let is_new = |it: &HeaderValue| !it.as_bytes().eq_ignore_ascii_case(request.headers[&name].as_bytes());
        if let Some(value) = HeaderValue::from_bytes(&value).ok().filter(is_new) {
            request.headers.insert(name, value);
            prop_assert!(request.check(&scheme, &[secret(1)], at(NOW)).is_err());
        }
    }

    #[test]
    fn no_header_value_makes_the_verifier_panic(
        scheme in any_scheme(),
        values in proptest::collection::vec("[ -~]{0,80}", 3),
        body in proptest::collection::vec(any::<u8>(), 0..100),
    ) {
        let mut request = Request::signed(&scheme, &secret(1), &body, at(NOW));
        let names: Vec<HeaderName> = request.headers.keys().cloned().collect();
        for (name, value) in names.into_iter().zip(&values) {
            request.headers.insert(name, HeaderValue::from_str(value).expect("visible"));
        }
        prop_assert!(request.check(&scheme, &[secret(1)], at(NOW)).is_err());
    }
}
