//! Source files of about 2,000 lines for the benches, in several languages: varied functions, types and comments, made
//! from a fixed seed. Three places in each hold a name of their own, which edits replace by the next.

/// A file of source code.
pub(crate) struct Program {
    /// What it is called.
    pub(crate) name: &'static str,
    /// What it says, with the names of round 0 at its places.
    pub(crate) text: String,
    /// A line that breaks its syntax, where a checker knows the language.
    pub(crate) broken: Option<&'static str>,
}

/// How many places of a program are edited in turn: near the start, in the middle, and near the end.
pub(crate) const PLACES: usize = 3;
const LINES: usize = 2000;

/// The name that stands at a place after so many edits of it.
pub(crate) fn name_at(place: usize, edits: usize) -> String {
    format!("probe_{place}_{edits:06}")
}

/// One program of each language.
pub(crate) fn programs() -> Vec<Program> {
    let program = |name, header: &str, unit: fn(&mut Dice) -> String, probe: fn(&str) -> String, broken| {
        let mut dice = Dice(0x5EED);
        let (mut text, mut lines, mut place) = (header.to_owned(), header.lines().count(), 0);
        while lines < LINES {
            if place < PLACES && lines >= LINES * (2 * place + 1) / (2 * PLACES) {
                text.push_str(&probe(&name_at(place, 0)));
                place += 1;
            }
            let unit = unit(&mut dice);
            lines += unit.lines().count();
            text.push_str(&unit);
        }
        Program { name, text, broken }
    };
    vec![
        program("a.c", "#include <stddef.h>\n#include \"table.h\"\n\n", c, c_probe, Some("int broken(;\n")),
        program(
            "a.py",
            "\"\"\"Tables.\"\"\"\n\nimport os\n\n\n",
            python,
            python_probe,
            Some("broken = (1\n"),
        ),
        program(
            "a.ts",
            "import { Table } from './table';\n\n",
            script,
            script_probe,
            Some("let broken: = 1;\n"),
        ),
        program("a.go", "package table\n\nimport \"errors\"\n\n", go, go_probe, Some("func broken( {}\n")),
        program("a.rs", "use std::fmt;\n\n", rust, rust_probe, Some("fn broken( {}\n")),
        program("a.md", "# Tables\n\n", markdown, markdown_probe, None),
    ]
}

/// Numbers that look random and are the same every time.
pub(crate) struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((x ^ (x >> 31)) % sides as u64) as usize
    }

    fn word(&mut self) -> &'static str {
        const WORDS: [&str; 24] = [
            "buffer", "handle", "row", "cursor", "state", "shared", "queue", "permit", "driver", "entry",
            "slot", "budget", "stream", "reader", "writer", "task", "offset", "length", "parent", "child",
            "limit", "weight", "bucket", "page",
        ];
        WORDS[self.roll(WORDS.len())]
    }

    /// A name that no other unit has.
    fn name(&mut self) -> String {
        format!("{}_{}_{}", self.word(), self.word(), self.roll(1_000_000))
    }

    fn sentence(&mut self) -> String {
        let words: Vec<&str> = (0..6 + self.roll(6)).map(|_| self.word()).collect();
        format!("The {} of each.", words.join(" "))
    }
}

fn c(dice: &mut Dice) -> String {
    let (name, a, b, n) = (dice.name(), dice.word(), dice.word(), dice.roll(900) + 3);
    match dice.roll(5) {
        0 => format!(
            "/* {said}\n * {more} */\nstatic int {name}(const struct table *{a}_in, size_t count) {{\n    int total = 0;\n    \
             for (size_t i = 0; i < count; i++) {{\n        if ({a}_in->rows[i].{b} > {n}u) {{\n            total += (int)({a}_in->rows[i].{b} - \
             {n}u);\n        }} else {{\n            total -= 1;\n        }}\n    }}\n    return total;\n}}\n\n",
            said = dice.sentence(),
            more = dice.sentence(),
        ),
        1 => format!(
            "struct {name} {{\n    unsigned int {a};\n    char *label[{n}];\n    struct {name} *next;\n    double (*weigh)(const void *, int);\n}};\n\n"
        ),
        2 => format!(
            "/* {said} */\nconst char *{name}(int code) {{\n    switch (code) {{\n    case 0:\n        return \"{a}\";\n    case {n}:\n        return \"{b}: \
             \\\"%s\\\"\\n\";\n    case {m}:\n        break;\n    default:\n        return NULL;\n    }}\n    return \"{a}_{b}\";\n}}\n\n",
            said = dice.sentence(),
            m = n + 1,
        ),
        3 => format!(
            "#define {upper}_MAX {n}\n\nvoid {name}(struct table *t, char **out) {{\n    char *p = *out;\n    while (p && *p != '\\0' && p - *out < \
             {upper}_MAX) {{\n        /* {said} */\n        t->{a} = (t->{a} << 3) ^ (unsigned)*p++;\n        t->{b}[t->{a} & 0xff] |= 1u << (t->{a} % 32);\n    \
             }}\n    do {{\n        *out = p ? p : \"\";\n    }} while (0);\n}}\n\n",
            upper = name.to_uppercase(),
            said = dice.sentence(),
        ),
        _ => format!(
            "enum {name} {{ {first}_A = {n}, {first}_B, {first}_C = 1 << 4 }};\n\nstatic const int {name}_steps[] = {{\n    {n}, {m}, 3, 5,\n    8, 13, 0x1f, -1,\n}};\n\n",
            first = name.to_uppercase(),
            m = n * 2,
        ),
    }
}

fn c_probe(name: &str) -> String {
    format!("int {name}(int a) {{\n    return a + 1;\n}}\n\n")
}

fn python(dice: &mut Dice) -> String {
    let (name, a, b, n) = (dice.name(), dice.word(), dice.word(), dice.roll(900) + 3);
    match dice.roll(5) {
        0 => format!(
            "def {name}({a}_in, count={n}, *, strict=False):\n    \"\"\"{said}\n\n    {more}\n    \"\"\"\n    total = 0\n    for index, row in \
             enumerate({a}_in[:count]):\n        if row.{b} > {n} and not strict:\n            total += row.{b} - {n}\n        else:\n            total -= 1\n    \
             return total\n\n\n",
            said = dice.sentence(),
            more = dice.sentence(),
        ),
        1 => format!(
            "class {name}(Table):\n    # {said}\n    {a}: int = {n}\n\n    def __init__(self, rows, **options):\n        super().__init__(rows)\n        self.{a} = \
             options.pop(\"{a}\", {n})\n        self.labels = {{row.key: row for row in rows if row.{b}_ok}}\n\n    @property\n    def {b}_ok(self):\n        return \
             self.{a} % 2 == 0 or len(self.labels) > {n}\n\n\n",
            said = dice.sentence(),
        ),
        2 => format!(
            "async def {name}(path):\n    try:\n        async with open_table(path, mode='{a}') as table:\n            return [f\"{{row.{b}!r:>{{{n}}}}}\" async \
             for row in table if row]\n    except (OSError, ValueError) as error:\n        raise RuntimeError(f'no {a}: {{error}}') from error\n    finally:\n        \
             os.environ.pop('{b}', None)\n\n\n"
        ),
        3 => format!(
            "{upper} = {{\n    '{a}': [{n}, {m}, 0x1f],\n    '{b}': ('x', \"it's\", r'\\d+', b'\\x00'),\n    'deep': {{'{a}': {{'{b}': None}}}},\n}}\n\n\n",
            upper = name.to_uppercase(),
            m = n * 2,
        ),
        _ => format!(
            "@cached(limit={n})\ndef {name}(value):\n    match value:\n        case {{'{a}': inner}}:\n            return inner\n        case [first, *_]:\n            \
             return first\n    key = lambda one: (one.{a}, -one.{b})  # {said}\n    return sorted(value, key=key)[-1] if value else None\n\n\n",
            said = dice.sentence(),
        ),
    }
}

fn python_probe(name: &str) -> String {
    format!("def {name}(a):\n    return a + 1\n\n\n")
}

fn script(dice: &mut Dice) -> String {
    let (name, a, b, n) = (dice.name(), dice.word(), dice.word(), dice.roll(900) + 3);
    match dice.roll(5) {
        0 => format!(
            "/**\n * {said}\n * {more}\n */\nexport function {name}(input: readonly Row[], count = {n}): number {{\n  let total = 0;\n  for (const [index, row] of \
             input.entries()) {{\n    if (row.{b} > {n} && index < count) {{\n      total += row.{b} - {n};\n    }} else {{\n      total -= 1;\n    }}\n  }}\n  \
             return total;\n}}\n\n",
            said = dice.sentence(),
            more = dice.sentence(),
        ),
        1 => format!(
            "export interface {name}<T extends object = {{}}> {{\n  readonly {a}: string;\n  {b}?: Array<T | null>;\n  [key: string]: unknown;\n  weigh(of: T, by?: \
             number): Promise<void>;\n}}\n\n"
        ),
        2 => format!(
            "class {name} extends Table {{\n  private {a} = new Map<string, number[]>();\n\n  constructor(private readonly {b}s: Row[], options: Partial<Options> \
             = {{}}) {{\n    super({{ ...options, limit: {n} }});\n  }}\n\n  async *rows(): AsyncGenerator<Row> {{\n    // {said}\n    for await (const row of \
             this.{b}s) yield {{ ...row, label: `${{row.{a} ?? '{a}'}}-${{this.{a}.size}}` }};\n  }}\n}}\n\n",
            said = dice.sentence(),
        ),
        3 => format!(
            "const {name} = (value: unknown): value is Row =>\n  typeof value === 'object' && value !== null && /^{a}[/\"]{b}$/gi.test(String(value)) && {n} > 3;\n\n\
             type {name}Kind = 'a' | 'b' | `${{number}}px` | {{ [K in keyof Row]?: Row[K] }};\n\n"
        ),
        _ => format!(
            "export async function {name}(path: string) {{\n  try {{\n    const table = await open(path);\n    switch (table.{a}) {{\n      case 'one':\n        return \
             table.rows.map(({{ {b}, ...rest }}) => ({{ {b}, rest }}));\n      default:\n        throw new Error(\"no {a}: \" + path);\n    }}\n  }} catch (error) \
             {{\n    return undefined as never;\n  }} finally {{\n    count += {n};\n  }}\n}}\n\n"
        ),
    }
}

fn script_probe(name: &str) -> String {
    format!("export function {name}(a: number): number {{\n  return a + 1;\n}}\n\n")
}

fn go(dice: &mut Dice) -> String {
    let (name, a, b, n) = (dice.name(), dice.word(), dice.word(), dice.roll(900) + 3);
    match dice.roll(5) {
        0 => format!(
            "// {name} is about this. {said}\nfunc {name}(in []row, count int) (int, error) {{\n\ttotal := 0\n\tfor i, r := range in {{\n\t\tif i >= count {{\n\t\t\t\
             return 0, errors.New(\"too many: {a}\")\n\t\t}}\n\t\tif r.{b} > {n} {{\n\t\t\ttotal += r.{b} - {n}\n\t\t}} else {{\n\t\t\ttotal--\n\t\t}}\n\t}}\n\t\
             return total, nil\n}}\n\n",
            said = dice.sentence(),
        ),
        1 => format!(
            "type {name} struct {{\n\t{a}_one int `json:\"{a}\"`\n\tlabels map[string][]byte\n\tnext *{name}\n\tweigh func(of interface{{}}, by int) float64\n}}\n\n"
        ),
        2 => format!(
            "func (t *table) {name}(code int) string {{\n\tdefer t.mu.Unlock()\n\tswitch {{\n\tcase code == 0:\n\t\treturn \"{a}\"\n\tcase code > {n}, code < -1:\n\t\t\
             return `{b}: \"%s\"\\n`\n\t}}\n\tselect {{\n\tcase v := <-t.in:\n\t\treturn string(v)\n\tdefault:\n\t}}\n\treturn \"\"\n}}\n\n"
        ),
        3 => format!(
            "// {said}\nvar {name} = map[string][]int{{\n\t\"{a}\": {{{n}, {m}, 0x1f}},\n\t\"{b}\": nil,\n}}\n\nconst (\n\t{name}A = iota + {n}\n\t{name}B\n)\n\n",
            said = dice.sentence(),
            m = n * 2,
        ),
        _ => format!(
            "func {name}[T any](rows []T, keep func(T) bool) []T {{\n\tvar kept []T\n\tfor _, r := range rows {{\n\t\tif keep(r) {{\n\t\t\tkept = append(kept, r)\n\t\t}}\n\t\
             }}\n\tgo func() {{ done <- struct{{}}{{}} }}()\n\treturn kept[:min(len(kept), {n})]\n}}\n\n"
        ),
    }
}

fn go_probe(name: &str) -> String {
    format!("func {name}(a int) int {{\n\treturn a + 1\n}}\n\n")
}

fn rust(dice: &mut Dice) -> String {
    let (name, a, b, n) = (dice.name(), dice.word(), dice.word(), dice.roll(900) + 3);
    match dice.roll(4) {
        0 => format!(
            "/// {said}\n/// {more}\npub fn {name}(input: &[Row], count: usize) -> Option<usize> {{\n    let mut total = 0;\n    for (index, row) in \
             input.iter().enumerate().take(count) {{\n        if row.{b} > {n} && index % 2 == 0 {{\n            total += row.{b} - {n};\n        }} else {{\n            \
             total = total.checked_sub(1)?;\n        }}\n    }}\n    Some(total)\n}}\n\n",
            said = dice.sentence(),
            more = dice.sentence(),
        ),
        1 => format!(
            "#[derive(Clone, Debug, Default)]\npub(crate) struct {name}<'a, T: ?Sized> {{\n    pub {a}: Vec<Option<&'a T>>,\n    {b}: std::collections::HashMap<String, \
             (u8, [u16; {n}])>,\n}}\n\n"
        ),
        2 => format!(
            "impl fmt::Display for {name} {{\n    // {said}\n    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {{\n        match self.{a} {{\n            0 | 1 => \
             write!(f, \"{a} {{}}\", self.{b}),\n            x @ 2..={n} if x != b'\\'' as usize => f.write_str(r#\"\"{b}\"\"#),\n            _ => Err(fmt::Error),\n        \
             }}\n    }}\n}}\n\n",
            said = dice.sentence(),
        ),
        _ => format!(
            "pub async fn {name}<F>(path: &str, keep: F) -> Result<Vec<Row>, Error>\nwhere\n    F: Fn(&Row) -> bool + Send,\n{{\n    let table = open(path).await?;\n    let \
             rows = table.rows.into_iter().filter(|row| keep(row)).map(|row| Row {{ {a}: row.{b} << 3, ..row }});\n    Ok(rows.take({n}).collect())\n}}\n\n"
        ),
    }
}

fn rust_probe(name: &str) -> String {
    format!("fn {name}(a: u8) -> u8 {{\n    a + 1\n}}\n\n")
}

fn markdown(dice: &mut Dice) -> String {
    let (name, a, n) = (dice.name(), dice.word(), dice.roll(900) + 3);
    match dice.roll(4) {
        0 => format!(
            "## {name}\n\n{} {}\n{} See [{a}](#{name}).\n\n",
            dice.sentence(),
            dice.sentence(),
            dice.sentence()
        ),
        1 => format!("- {}\n- **{a}**: {}\n  1. `{name}`\n\n", dice.sentence(), dice.sentence()),
        2 => format!("```c\nint {name}(int a) {{\n    return a + {n};\n}}\n```\n\n"),
        _ => format!("| {a} | {name} |\n|---|---|\n| {n} | {} |\n\n", dice.sentence()),
    }
}

fn markdown_probe(name: &str) -> String {
    format!("### {name}\n\nWhat it is.\n\n")
}
