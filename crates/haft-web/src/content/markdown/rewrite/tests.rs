use super::*;

fn rewritten(html: &str) -> String {
    rewrite(html, &Url::parse("https://site.example/dir/page").unwrap()).html
}

#[test]
fn markup_is_balanced_and_reduced() {
    for (html, expected) in [
        ("<p class=x id='y'>a<p>b", "<p>a</p><p>b</p>"),
        ("<P>a</P >", "<p>a</P>"),
        ("<ul><li>a<li><b>b</ul>c", "<ul><li>a</li><li><b>b</b></li></ul>c"),
        ("<p><b>x<p>y", "<p><b>x</b></p><p>y</p>"),
        (
            "<table><tr><td>1<td>2<tr><td>3</table>",
            "<table><tr><td>1</td><td>2</td></tr><tr><td>3</td></tr></table>",
        ),
        ("</div></p>x</b>", "x"),
        ("a<!-- <b> -->b<!-->c<!--->d<!-- x --!>e", "abcde"),
        ("<script>if (a < b) '</div>'</script>x<style>p{}</STYLE >y", "xy"),
        ("<div hidden><p>no</div>yes", "yes"),
        ("<div style='Display : none'>no<div>no</div></div>yes", "yes"),
        ("<div style=\"opacity: 0.9\">yes</div>", "<div>yes</div>"),
        ("<form><label>l</label><select><option>1</select></form>", "<div>l</div>"),
        ("1 < 2 <3", "1 &lt; 2 &lt;3"),
        (
            "<a href=\"x?a=1&amp;b=2\" onclick='evil()'>l</a>",
            "<a href=\"https://site.example/dir/x?a=1&amp;b=2\">l</a>",
        ),
        ("<a href='javascript:alert(1)'>l</a><a href=#here>m</a>", "<a>l</a><a>m</a>"),
        ("<img src=data:image/png;base64,AAAA alt='a \"b\"'>", "a &quot;b&quot;"),
        ("<img alt=c src=/i.png>", "<img alt=\"c\" src=\"https://site.example/i.png\">"),
        ("<base href=/other/><a href=y>l</a>", "<a href=\"https://site.example/other/y\">l</a>"),
        ("<a title=\"x > y\" href=z>l</a>", "<a href=\"https://site.example/dir/z\">l</a>"),
        (
            "<pre><code class=language-rust>fn</code></pre>",
            "<pre><code class=\"language-rust\">fn</code></pre>",
        ),
        ("<my-own-element-of-some-length>x</my-own-element-of-some-length>", "x"),
        ("text <b", "text "),
        ("<td>a<p>b</td></p>", "<td>a<p>b</p></td>"),
    ] {
        assert_eq!(rewritten(html), expected, "{html}");
    }
}

#[test]
fn the_title_is_text() {
    let page =
        rewrite("<head><title>\n A &amp; <b> </title></head>x", &Url::parse("https://a.example").unwrap());
    assert_eq!((page.title.as_deref(), page.html.as_str()), (Some("A & <b>"), "x"));
}

#[test]
fn depth_and_number_of_elements_are_bounded() {
    let base = Url::parse("https://a.example").unwrap();
    let page = rewrite(&format!("{}x{}y", "<div>".repeat(100_000), "</div>".repeat(100_000)), &base);
    assert!(page.is_too_deep);
    assert_eq!((page.html.matches("<div>").count(), page.html.ends_with("y")), (MAX_DEPTH, true));
    let page = rewrite(&"<br>".repeat(MAX_ELEMENTS + 10), &base);
    assert!(page.is_too_long);
    // End tags that match nothing do not look far.
    let page = rewrite(&format!("{}{}", "<q>".repeat(100_000), "</x>".repeat(100_000)), &base);
    assert_eq!(page.html, "");
}

proptest::proptest! {
    /// Whatever comes in, what goes out is balanced.
    #[test]
    fn every_start_tag_has_its_end(html in "(<(/)?(p|b|div|li|ul|table|td|tr|a|h1|svg|script|hr|x)( hidden)?>|a|<|>|&amp;|<!--|-->|\"|=){0,60}") {
        let page = rewritten(&html);
        let mut open: Vec<&str> = Vec::new();
        for token in (Tokens { rest: &page }) {
            match token {
                Token::Start { name: "hr", .. } => {}
                Token::Start { name, .. } => open.push(name),
                Token::End { name } => proptest::prop_assert_eq!(open.pop(), Some(name)),
                _ => {}
            }
        }
        proptest::prop_assert!(open.is_empty(), "{:?} in {}", open, page);
    }
}
