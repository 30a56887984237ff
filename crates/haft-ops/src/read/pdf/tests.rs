use super::*;

fn deadline() -> Deadline {
    Deadline(Instant::now() + Duration::from_secs(20))
}

/// Builds a document of the given objects; the first one is its catalog.
fn pdf(objects: &[String]) -> Vec<u8> {
    let mut out = b"%PDF-1.4\n".to_vec();
    let mut places = Vec::new();
    for (at, object) in objects.iter().enumerate() {
        places.push(out.len());
        out.extend_from_slice(format!("{} 0 obj\n{object}\nendobj\n", at + 1).as_bytes());
    }
    let table = out.len();
    let size = objects.len() + 1;
    out.extend_from_slice(format!("xref\n0 {size}\n0000000000 65535 f \n").as_bytes());
    for place in places {
        out.extend_from_slice(format!("{place:010} 00000 n \n").as_bytes());
    }
    out.extend_from_slice(
        format!("trailer\n<< /Size {size} /Root 1 0 R >>\nstartxref\n{table}\n%%EOF\n").as_bytes(),
    );
    out
}

fn stream(dictionary: &str, content: &str) -> String {
    format!("<< {dictionary} /Length {} >>\nstream\n{content}\nendstream", content.len())
}

const CATALOG: &str = "<< /Type /Catalog /Pages 2 0 R >>";
const FONT: &str = "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>";

fn with_contents(contents: &[&str]) -> Vec<u8> {
    let kids: Vec<String> = (0..contents.len()).map(|at| format!("{} 0 R", 4 + 2 * at)).collect();
    let mut objects = vec![
        CATALOG.to_owned(),
        format!(
            "<< /Type /Pages /Kids [{}] /Count {} /MediaBox [0 0 200 200] >>",
            kids.join(" "),
            contents.len()
        ),
        FONT.to_owned(),
    ];
    for (at, content) in contents.iter().enumerate() {
        let own = 5 + 2 * at;
        objects.push(format!(
            "<< /Type /Page /Parent 2 0 R /Contents {own} 0 R /Resources << /Font << /F 3 0 R >> >> >>"
        ));
        objects.push(stream("", content));
    }
    pdf(&objects)
}

fn line(text: &str) -> String {
    format!("BT /F 12 Tf 20 100 Td ({text}) Tj ET")
}

#[test]
fn extracts_the_text_of_each_page() {
    let bytes = with_contents(&[&line("first"), &line("second"), "0 0 10 10 re f"]);
    let read = extract(&bytes, None, &deadline()).unwrap();
    assert_eq!((read.total, read.next), (3, None));
    let texts: Vec<&str> = read.pages.iter().map(|(_, text)| text.as_ref().unwrap().trim()).collect();
    assert_eq!(texts, ["first", "second", ""]);
    let pages = Pages::parse("2").unwrap();
    assert_eq!(extract(&bytes, Some(&pages), &deadline()).unwrap().pages[0].0, 2);
    let none = Pages::parse("7").unwrap();
    assert_eq!(extract(&bytes, Some(&none), &deadline()), Err(PdfProblem::NoSuchPage { total: 3 }));
}

#[test]
fn reads_at_most_twenty_pages_per_call() {
    let line = line("x");
    let bytes = with_contents(&[line.as_str(); 25]);
    let read = extract(&bytes, None, &deadline()).unwrap();
    assert_eq!((read.total, read.pages.len(), read.next), (25, MAX_PAGES, Some(21)));
}

#[test]
fn reports_broken_documents_and_documents_without_pages() {
    for bytes in [&b"%PDF-1.4\nnothing"[..], b"%PDF-", &with_contents(&["x"])[..100]] {
        assert!(matches!(extract(bytes, None, &deadline()), Err(PdfProblem::Broken(_))));
    }
    let no_pages = pdf(&[CATALOG.to_owned(), "<< /Type /Pages /Kids [] /Count 0 >>".to_owned()]);
    assert_eq!(extract(&no_pages, None, &deadline()), Err(PdfProblem::Empty));
}

#[test]
fn a_cyclic_page_tree_ends() {
    let circle = pdf(&[
        CATALOG.to_owned(),
        "<< /Type /Pages /Kids [3 0 R 2 0 R] /Count 2 /Parent 2 0 R >>".to_owned(),
        "<< /Type /Page /Parent 2 0 R >>".to_owned(),
    ]);
    if let Ok(read) = extract(&circle, None, &deadline()) {
        assert!(read.pages.iter().all(|(_, text)| text.is_err()));
    }
}

#[test]
fn a_drawing_within_itself_fails_only_its_page() {
    let form = |resources: &str| stream(&format!("/Type /XObject /Subtype /Form {resources}"), "/X Do");
    for resources in ["", "/Resources << /XObject << /X 5 0 R >> >>"] {
        let bytes = pdf(&[
            CATALOG.to_owned(),
            "<< /Type /Pages /Kids [3 0 R] /Count 1 /MediaBox [0 0 9 9] >>".to_owned(),
            "<< /Type /Page /Parent 2 0 R /Contents 4 0 R /Resources << /XObject << /X 5 0 R >> >> >>"
                .to_owned(),
            stream("", "/X Do"),
            form(resources),
        ]);
        let read = extract(&bytes, None, &deadline()).unwrap();
        assert_eq!(read.pages, [(1, Err("it draws itself within itself".to_owned()))]);
    }
}

#[test]
fn nested_drawings_are_counted_before_they_are_drawn() {
    let mut objects = vec![
        CATALOG.to_owned(),
        "<< /Type /Pages /Kids [3 0 R] /Count 1 /MediaBox [0 0 9 9] >>".to_owned(),
        "<< /Type /Page /Parent 2 0 R /Contents 4 0 R /Resources << /XObject << /X 5 0 R >> >> >>".to_owned(),
        stream("", "/X Do"),
    ];
    for next in 6..20 {
        let resources = format!("/Subtype /Form /Resources << /XObject << /X {next} 0 R >> >>");
        objects.push(stream(&resources, &"/X Do ".repeat(10)));
    }
    objects.push(stream("/Subtype /Form", "q Q"));
    let read = extract(&pdf(&objects), None, &deadline()).unwrap();
    assert_eq!(read.pages, [(1, Err("it is too much to draw".to_owned()))]);
}

#[test]
fn a_hundred_thousand_nested_arrays_are_refused() {
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let mut objects = vec![CATALOG.to_owned(), "<< /Type /Pages /Kids [] /Count 0 >>".to_owned()];
    objects.push(deep);
    let bytes = pdf(&objects);
    assert!(extract(&bytes, None, &deadline()).is_err());
}

#[test]
fn a_stream_that_unpacks_to_gigabytes_is_refused() {
    use std::io::Write as _;
    let mut packed = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
    let zeros = vec![b' '; 1024 * 1024];
    (0..70).for_each(|_| packed.write_all(&zeros).unwrap());
    let packed = packed.finish().unwrap();
    for kind in ["/Type /ObjStm /N 1 /First 2", "/Type /Obj#53tm /N 1 /First 2", ""] {
        let mut bytes = with_contents(&["x"]);
        let dictionary =
            format!("\n9 0 obj\n<< {kind} /Filter /FlateDecode /Length {} >>\nstream\n", packed.len());
        let mut bomb = b"%PDF-1.4".to_vec();
        bomb.extend_from_slice(dictionary.as_bytes());
        bomb.extend_from_slice(&packed);
        if kind.is_empty() {
            let mut document = Document::load_mem(&with_contents(&["x"])).unwrap();
            let mut dictionary = pdf_extract::Dictionary::new();
            dictionary.set("Filter", pdf_extract::Object::Name(b"FlateDecode".to_vec()));
            document.add_object(pdf_extract::Stream::new(dictionary, packed.clone()));
            assert_eq!(guard::check_streams(&mut document), Err(PdfProblem::Bomb(64)));
        } else {
            bytes.splice(0..8, bomb);
            assert_eq!(extract(&bytes, None, &deadline()), Err(PdfProblem::Bomb(64)));
        }
    }
}

/// Each stream is below the limit; their sum is not.
#[test]
fn streams_that_unpack_to_gigabytes_together_are_refused() {
    use std::io::Write as _;
    let mut packed = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
    let zeros = vec![b' '; 1024 * 1024];
    (0..10).for_each(|_| packed.write_all(&zeros).unwrap());
    let packed = packed.finish().unwrap();
    let mut bomb = b"%PDF-1.4".to_vec();
    for number in 9..19 {
        let length = packed.len();
        let head = format!(
            "\n{number} 0 obj\n<< /Type /ObjStm /N 1 /First 2 /Filter /FlateDecode /Length {length} >>\nstream\n"
        );
        bomb.extend_from_slice(head.as_bytes());
        bomb.extend_from_slice(&packed);
        bomb.extend_from_slice(b"\nendstream\nendobj\n");
    }
    let mut bytes = with_contents(&["x"]);
    bytes.splice(0..8, bomb);
    assert_eq!(extract(&bytes, None, &deadline()), Err(PdfProblem::Bomb(64)));
}

/// A document of one page with text and these objects besides, of which the first is number 6.
fn with_object(contents: &str, resources: &str, more: &[String]) -> Vec<u8> {
    let mut objects = vec![
        CATALOG.to_owned(),
        "<< /Type /Pages /Kids [4 0 R] /Count 1 /MediaBox [0 0 200 200] >>".to_owned(),
        FONT.to_owned(),
        format!(
            "<< /Type /Page /Parent 2 0 R /Contents 5 0 R /Resources << /Font << /F 3 0 R >> {resources} >> >>"
        ),
        stream("", contents),
    ];
    objects.extend(more.iter().cloned());
    pdf(&objects)
}

#[test]
fn pages_with_pictures_beside_their_text_are_found() {
    let image = |side: usize| {
        let form = "/Type /XObject /Subtype /Image /ColorSpace /DeviceGray /BitsPerComponent 8";
        stream(&format!("{form} /Width {side} /Height {side}"), &"x".repeat(side * side))
    };
    let text = line("hello");
    let shown = format!("{text} q 100 0 0 100 0 0 cm /I Do Q");
    let lines = |count: usize| format!("{text} {}", "0 0 m 9 9 l S ".repeat(count));
    let form = stream(
        "/Type /XObject /Subtype /Form /BBox [0 0 9 9] /Resources << /XObject << /I 7 0 R >> >>",
        "/I Do",
    );
    let cases = [
        (with_object(&text, "", &[]), false),
        (with_object(&shown, "/XObject << /I 6 0 R >>", &[image(20)]), true),
        (with_object(&shown, "/XObject << /I 6 0 R >>", &[image(2)]), false),
        (with_object(&shown, "/XObject << /I 6 0 R >>", &[form, image(20)]), true),
        (with_object(&shown, "/XObject 9 0 R", &[]), false),
        (with_object(&lines(5), "", &[]), false),
        (with_object(&lines(50), "", &[]), true),
    ];
    for (at, (bytes, expected)) in cases.iter().enumerate() {
        let extracted = extract(bytes, None, &deadline()).unwrap();
        let (_, text) = &extracted.pages[0];
        assert!(text.as_ref().unwrap().contains("hello"), "{at}");
        assert_eq!(extracted.with_pictures, if *expected { vec![1] } else { vec![] }, "{at}");
    }
}
