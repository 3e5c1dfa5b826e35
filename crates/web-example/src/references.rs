//! What pages and style sheets refer to.

use bytes::Bytes;
use html5gum::emitters::default::DefaultEmitter;
use html5gum::{StartTag, Token, Tokenizer};
use url::Url;

use crate::path::Path;

/// What may refer to other files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Page,
    Style,
}

impl Kind {
    /// By the name of the file.
    pub fn of(file: &[u8]) -> Option<Kind> {
        let has = |end: &str| file.to_ascii_lowercase().ends_with(end.as_bytes());
        match () {
            () if has(".html") || has(".htm") => Some(Kind::Page),
            () if has(".css") => Some(Kind::Style),
            () => None,
        }
    }
}

/// The files of the same site that `content`, which is `file`, refers to: each once, at most `most`.
pub(crate) fn references(kind: Kind, file: &Bytes, content: &[u8], most: usize) -> Vec<Bytes> {
    let mut found = Found { base: base(file), files: Vec::new(), most };
    match kind {
        Kind::Page => page(content, &mut found),
        Kind::Style => style(content, &mut found),
    }
    found.files
}

struct Found {
    base: Option<Url>,
    files: Vec<Bytes>,
    most: usize,
}

/// The URL of a file; the name of the host is of no use to anybody but us.
fn base(file: &[u8]) -> Option<Url> {
    let mut url = Url::parse("http://site.invalid/").ok()?;
    let names = file.split(|byte| *byte == b'/').map(String::from_utf8_lossy);
    url.path_segments_mut().ok()?.clear().extend(names);
    Some(url)
}

impl Found {
    fn is_full(&self) -> bool {
        self.files.len() >= self.most
    }

    fn add(&mut self, reference: &[u8]) {
        let (Some(base), Ok(reference)) = (&self.base, std::str::from_utf8(reference)) else { return };
        let Ok(url) = base.join(reference.trim()) else { return };
        if url.origin() != base.origin() || url.path() == base.path() || self.is_full() {
            return;
        }
        if let Some(Path { file, .. }) = Path::of_url(url.path())
            && !self.files.contains(&file)
        {
            self.files.push(file);
        }
    }
}

fn page(content: &[u8], found: &mut Found) {
    let mut emitter = DefaultEmitter::default();
    // What is in a script is not a tag.
    emitter.naively_switch_states(true);
    let mut in_style = false;
    for Ok(token) in Tokenizer::new_with_emitter(content, emitter) {
        match token {
            _ if found.is_full() => return,
            Token::StartTag(tag) => {
                in_style = **tag.name == *b"style";
                if let Some(reference) = of_tag(&tag) {
                    found.add(reference);
                }
            }
            Token::EndTag(_) => in_style = false,
            Token::String(text) if in_style => style(&text, found),
            _ => {}
        }
    }
}

/// What a browser asks for when it meets this tag.
fn of_tag(tag: &StartTag<()>) -> Option<&[u8]> {
    let attribute = |name: &[u8]| tag.attributes.get(name).map(|value| &value[..]);
    match &tag.name[..] {
        b"img" | b"script" | b"iframe" | b"source" | b"audio" | b"embed" => attribute(b"src"),
        b"video" => attribute(b"poster"),
        b"link" => {
            let wanted = |word: &[u8]| {
                [&b"stylesheet"[..], b"icon", b"preload", b"modulepreload", b"manifest"]
                    .iter()
                    .any(|known| word.eq_ignore_ascii_case(known))
            };
            attribute(b"rel")?.split(u8::is_ascii_whitespace).any(wanted).then(|| attribute(b"href"))?
        }
        _ => None,
    }
}

/// `url(…)` and `@import "…"`. Not more of CSS than that: a reference that is none costs a look at a file that is not there.
fn style(content: &[u8], found: &mut Found) {
    let mut rest = content;
    while let Some(start) = rest.iter().position(|byte| matches!(byte, b'u' | b'U' | b'@' | b'/')) {
        rest = &rest[start..];
        let after = |word: &str| {
            let (head, tail) = rest.split_at_checked(word.len())?;
            head.eq_ignore_ascii_case(word.as_bytes()).then(|| tail.trim_ascii_start())
        };
        if found.is_full() {
            return;
        } else if let Some(comment) = after("/*") {
            let end = comment.windows(2).position(|two| two == b"*/");
            rest = end.map_or(&[], |end| &comment[end + 2..]);
        } else if let Some(tail) = after("url(") {
            rest = reference(tail, b')', found);
        } else if let Some(tail) = after("@import") {
            rest =
                if matches!(tail.first(), Some(b'"' | b'\'')) { reference(tail, b';', found) } else { tail };
        } else {
            rest = &rest[1..];
        }
    }
}

/// Adds what is between quotes, or up to `end` without any; what comes after it.
fn reference<'a>(text: &'a [u8], end: u8, found: &mut Found) -> &'a [u8] {
    let (text, end) = match text.first() {
        Some(quote @ (b'"' | b'\'')) => (&text[1..], *quote),
        _ => (text, end),
    };
    let Some(length) = text.iter().position(|byte| *byte == end) else { return &[] };
    found.add(&text[..length]);
    &text[length..]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(kind: Kind, file: &'static str, content: &str) -> Vec<String> {
        let found = references(kind, &file.into(), content.as_bytes(), 5);
        found.into_iter().map(|file| String::from_utf8(file.to_vec()).unwrap()).collect()
    }

    #[test]
    fn a_page_refers_to_what_its_browser_asks_for() {
        let page = r#"<link rel="Icon stylesheet" href="../a.css?v=2#x"><link rel=next href=next.html>
            <IMG SRC='/b%20b.png'><img src=b.png><script>"<img src=not.png>"</script>
            <!-- <img src=nor.png> --><a href=c.html></a><style>p { background: url( "d.png" ) }</style>"#;
        assert_eq!(of(Kind::Page, "dir/index.html", page), ["a.css", "b b.png", "dir/b.png", "dir/d.png"]);
    }

    #[test]
    fn a_style_sheet_refers_by_url_and_import() {
        let style =
            "@import 'one.css'; @import url(two.css); /* url(no.png) */ p{background:URL(\"i/3.png\")}";
        assert_eq!(of(Kind::Style, "css/a.css", style), ["css/one.css", "css/two.css", "css/i/3.png"]);
    }

    #[test]
    fn what_is_elsewhere_or_leads_out_is_left_out() {
        let page = "<img src=http://other/x><img src=//other/x><img src=data:,x><img src=><img src='a%2f..%2fb'>\
                    <img src=../../../up.png><img src=javascript:x><img src='a%00b'>";
        assert_eq!(
            of(Kind::Page, "p.html", page),
            ["up.png"],
            "as a browser, which knows nothing above the root"
        );
    }

    #[test]
    fn no_more_than_wanted_and_each_once() {
        let page = (0..20).map(|n| format!("<img src={n}><img src={n}>")).collect::<String>();
        assert_eq!(of(Kind::Page, "p.html", &page), ["0", "1", "2", "3", "4"]);
    }

    proptest! {
        #[test]
        fn any_bytes_can_be_read(content in proptest::collection::vec(any::<u8>(), 0..300),
                                 css in "[@importurl()\"'/* ;.]{0,80}") {
            references(Kind::Page, &"a/b.html".into(), &content, 9);
            references(Kind::Style, &"a/b.css".into(), &content, 9);
            references(Kind::Style, &"a/b.css".into(), css.as_bytes(), 9);
        }
    }
}
