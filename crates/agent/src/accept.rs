//! Which of several forms of an answer the header Accept of HTTP asks for.

/// One form in which an answer can be given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offer<T> {
    /// The form.
    pub answer: T,
    /// Its media type, such as `text/plain`.
    pub media_type: &'static str,
    /// The versions of the media type that it is good for, if a version is asked for.
    pub versions: &'static [&'static str],
}

/// The offer that is liked best; among equals, and where none is liked, the first one: an answer in another form serves people better than
/// none.
pub fn choose<T: Copy>(accept: &str, offers: &[Offer<T>; 2]) -> T {
    let [first, second] = offers;
    if quality(accept, second) > quality(accept, first) { second.answer } else { first.answer }
}

/// How much an offer is liked, in thousandths: as the most specific range that it falls into says.
fn quality<T>(accept: &str, offer: &Offer<T>) -> u32 {
    let rated = accept.split(',').filter_map(|range| rate(range, offer));
    rated.max_by_key(|(specificity, quality)| (*specificity, *quality)).map_or(0, |(_, quality)| quality)
}

/// How specific a range such as `text/*;q=0.5` is, and how much it is liked; `None` if the offer does not fall into it.
fn rate<T>(range: &str, offer: &Offer<T>) -> Option<(u32, u32)> {
    let mut parts = range.split(';').map(str::trim);
    let media_type = parts.next()?.to_ascii_lowercase();
    let kind = offer.media_type.split('/').next()?;
    let mut specificity = match media_type.as_str() {
        "*/*" => 0,
        it if it.strip_suffix("/*") == Some(kind) => 1,
        it if it == offer.media_type => 2,
        _ => return None,
    };
    let mut quality = 1000;
    for (name, value) in parts.filter_map(|parameter| parameter.split_once('=')) {
        match (name.trim().to_ascii_lowercase().as_str(), value.trim().trim_matches('"')) {
            ("q", value) => quality = thousandths(value)?,
            ("version", value) if offer.versions.contains(&value) => specificity = 3,
            ("version", _) => return None,
            _ => {}
        }
    }
    Some((specificity, quality))
}

fn thousandths(value: &str) -> Option<u32> {
    let quality: f64 = value.parse().ok()?;
    (0.0..=1.0).contains(&quality).then_some((quality * 1000.0) as u32)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const OFFERS: [Offer<char>; 2] = [
        Offer { answer: 't', media_type: "text/plain", versions: &["0.0.4"] },
        Offer { answer: 'o', media_type: "application/openmetrics-text", versions: &["1.0.0", "0.0.1"] },
    ];

    #[test]
    fn what_prometheus_sends_is_answered_with_openmetrics() {
        let recent = "application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,\
                      text/plain;version=1.0.0;q=0.3,text/plain;version=0.0.4;q=0.2,*/*;q=0.1";
        let older = "application/openmetrics-text; version=0.0.1,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        assert_eq!((choose(recent, &OFFERS), choose(older, &OFFERS)), ('o', 'o'));
    }

    #[test]
    fn whoever_does_not_ask_for_it_gets_plain_text() {
        for accept in [
            "",
            "*/*",
            "text/*",
            "text/html, */*;q=0.8",
            "image/png",
            "application/openmetrics-text;q=0, */*",
            "application/openmetrics-text;version=2.0.0",
            "text/plain;q=0.9, application/openmetrics-text;q=0.8",
            "text/plain;version=0.0.4, */*;q=0.1",
            ";;,=,q=",
        ] {
            assert_eq!(choose(accept, &OFFERS), 't', "{accept}");
        }
    }

    #[test]
    fn the_most_specific_range_decides_about_an_offer() {
        assert_eq!(choose("*/*;q=1, text/plain;q=0.2", &OFFERS), 'o');
        assert_eq!(choose("text/plain;q=0.2, TEXT/plain;version=\"0.0.4\", application/*;q=0.5", &OFFERS), 't');
        assert_eq!(choose("application/* ; q=0.5", &OFFERS), 'o');
    }

    proptest! {
        #[test]
        fn any_header_is_answered(accept in any::<String>()) {
            prop_assert!(['t', 'o'].contains(&choose(&accept, &OFFERS)));
        }
    }
}
