//! The taxonomy that is used until the configuration names its own.
//!
//! Descriptions are written for the model as for people and name the near misses; examples are
//! written the way customers write. A label for the rest stands last: without one every stray
//! ticket is pressed into a label where nobody looks for it.

use crate::domain::{Category, Taxonomy};

/// Changes with every change of the labels, descriptions or examples below.
const VERSION: &str = "default-1";

struct Label {
    key: &'static str,
    description: &'static str,
    examples: &'static [&'static str],
}

/// The default taxonomy: eleven labels that most help desks can start with.
#[must_use]
pub fn default_taxonomy() -> Taxonomy {
    let categories = LABELS.iter().map(|label| Category {
        key: label.key.to_owned(),
        description: label.description.to_owned(),
        examples: label.examples.iter().map(|example| (*example).to_owned()).collect(),
    });
    #[expect(clippy::expect_used, reason = "the labels are constants, and a test builds them")]
    Taxonomy::new(VERSION, categories.collect()).expect("the default labels are a valid taxonomy")
}

const LABELS: [Label; 11] = [
    Label {
        key: "billing",
        description: "Invoices, charges, payment methods, prices, taxes, receipts and plans. Not a wish to leave \
                      or to get money back: that is cancellation_refund.",
        examples: &[
            "Our invoice for October shows twelve seats but we only have nine users.",
            "My card expired, where do I enter the new one?",
            "We were charged twice for the same month.",
            "Please add our VAT number to the receipts.",
            "What would it cost to move from the basic to the team plan?",
            "The payment failed although the card is fine.",
        ],
    },
    Label {
        key: "bug_report",
        description: "A function of the product gives an error, a wrong result or nothing at all, for one person or \
                      in one place. If the whole service cannot be reached, it is outage.",
        examples: &[
            "Clicking Export to CSV gives an error 500 and no file.",
            "Since the last update the search shows deleted entries.",
            "The app crashes when I rotate my phone on the settings screen.",
            "Dates are shown one day off in the report.",
            "The save button does nothing in Firefox.",
            "Stack trace: null pointer exception when uploading an image.",
        ],
    },
    Label {
        key: "outage",
        description: "The service as a whole, or a main part of it, is down, unreachable or far too slow for many \
                      people at once.",
        examples: &[
            "Your site is down, none of our agents can load it.",
            "We get 503 errors on every request since 9:40.",
            "The whole platform has been extremely slow for everyone this morning.",
            "API unreachable, all requests time out, production is affected.",
            "Is there an incident? Nothing loads for any of our users.",
        ],
    },
    Label {
        key: "account_access",
        description: "Someone cannot get into an account: password, log-in, two-factor codes, locked or missing \
                      accounts, invitations, permissions and user management.",
        examples: &[
            "I forgot my password and the reset mail never arrives.",
            "My account is locked after too many attempts.",
            "I got a new phone and lost my authenticator codes.",
            "Please make my colleague an administrator of our workspace.",
            "The invitation link says that it has expired.",
            "I want to change the e-mail address I log in with.",
        ],
    },
    Label {
        key: "how_to",
        description: "A question how to use, set up or find something that exists and works.",
        examples: &[
            "How do I export my contacts?",
            "Where can I change the language of the interface?",
            "Is it possible to schedule a report for every Monday?",
            "Can you explain the difference between a project and a board?",
            "What is the best way to import our old data?",
            "I can't find the setting for notifications.",
        ],
    },
    Label {
        key: "feature_request",
        description: "A wish for something that the product does not do yet, or for it to do something differently.",
        examples: &[
            "It would be great to have a dark mode.",
            "Please add support for exporting to Excel.",
            "We would love to be able to sort tickets by customer.",
            "Suggestion: keyboard shortcuts for the most common actions.",
            "Any plans for an Android app? We really miss it.",
        ],
    },
    Label {
        key: "security",
        description: "A vulnerability, a data leak, stolen credentials, suspicious log-ins, phishing in our name, \
                      privacy and data protection requests, compliance questions.",
        examples: &[
            "I found a cross-site scripting vulnerability in your comment form.",
            "Someone from another country logged into my account.",
            "I can see another customer's data in my dashboard.",
            "We received a phishing mail that pretends to come from you.",
            "Please delete all personal data you hold about me under the GDPR.",
            "Do you have a SOC 2 report that we can review?",
        ],
    },
    Label {
        key: "cancellation_refund",
        description: "A wish to cancel, downgrade to nothing, close an account, not renew, or get money back.",
        examples: &[
            "I want to cancel my subscription at the end of the month.",
            "Please refund the last payment, I no longer use the product.",
            "How do I close my account for good?",
            "We will not renew our contract.",
            "I cancelled last week but was still charged, I want my money back.",
        ],
    },
    Label {
        key: "integration",
        description: "API, webhooks, single sign-on, plug-ins, imports from and connections to other products.",
        examples: &[
            "Our webhook endpoint no longer receives events.",
            "How do I authenticate against the REST API?",
            "The Slack integration stopped posting to our channel.",
            "Which scopes does the OAuth token need to read contacts?",
            "We would like to connect Salesforce and sync accounts.",
            "SAML single sign-on with Okta returns an invalid assertion.",
        ],
    },
    Label {
        key: "spam",
        description: "Advertising, mass mail, fraud, job offers and nonsense that has nothing to do with the product.",
        examples: &[
            "We offer SEO services and can bring your website to page one of Google.",
            "Congratulations, you have won a prize, click here to claim it.",
            "Buy cheap followers and likes now.",
            "I would like to place a guest post with a link on your blog.",
            "Investment opportunity: double your bitcoin in one week.",
        ],
    },
    Label {
        key: "other",
        description: "Anything that fits no other label: praise, press, partnerships, personal matters, and texts that \
                      say too little to tell.",
        examples: &[
            "Just wanted to say thank you to your support team, you are wonderful.",
            "I am a journalist and would like to interview your founder.",
            "Are you hiring?",
            "hello",
            "test",
        ],
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_taxonomy_is_valid_and_every_label_has_examples() {
        let taxonomy = default_taxonomy();
        assert_eq!(taxonomy.categories().len(), LABELS.len());
        assert!(taxonomy.categories().iter().all(|category| (4..=8).contains(&category.examples.len())));
        assert_eq!(taxonomy.categories().last().map(|category| category.key.as_str()), Some("other"));
    }
}
