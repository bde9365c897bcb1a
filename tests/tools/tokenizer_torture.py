"""Texts that tokenizers get wrong, for make_tokenizer_fixtures.py. Bytes stand for text that is not UTF-8."""

PLAIN = [
    "",
    " ",
    "a",
    "Hello world",
    " Hello  world ",
    "The quick brown fox jumps over the lazy dog.",
    "In 2019, 12345678 people paid $3.50 (or 99%) for 1,000,000 things; x=-1e-10.",
    "I'm you're he'S WE'LL they'd can't I'VE 'tis 'S'LL'Re'vE''d '\u017f 'K \u2019s",
    "don't  DON'T\tdon\u2019t",
    "camelCaseHTTPServer snake_case_name kebab-case UPPER lower MiXeD",
    "https://example.org/path?x=1&y=%20#frag user@example.com C:\\dir\\file.txt",
]

SPACES = [
    "  ",
    "     x",
    "x     ",
    "\n",
    "\n\n\n",
    "a\nb\r\nc\rd\n\n\ne",
    " \n \n  \n   x",
    "\t\t\tif (a)\n\t\t{\n\t\t\treturn;\n\t\t}\n",
    "a \t\n\x0b\x0c\r b",
    "\u00a0nbsp\u00a0 \u2003em\u2003 \u3000ideographic\u3000 \u180emongolian \u200bzero \u2028line\u2029par\u0085nel",
    "x" + " " * 70 + "y" + "\n" * 40 + "\t" * 33,
    "trailing spaces   \nand newline \n",
    "\u2581 \u2581a \u2581\u2581b a\u2581b",
]

UNICODE = [
    "\u00e9\u00e8\u00ea caf\u00e9 na\u00efve \u00fcber Stra\u00dfe \u00c5ngstr\u00f6m \u0130stanbul \u01c5",
    "e\u0301 a\u0300\u0316\u0301 o\u0302\u0323 \u1e0b\u0323 \ufb01 \u2126 \u212b \u1e9b\u0323",
    "\u0300\u0301 leading marks",
    "\u4f60\u597d\uff0c\u4e16\u754c\u3002\u4eca\u5929\u5929\u6c14\u4e0d\u9519\uff01123\u4e2a",
    "\u3053\u3093\u306b\u3061\u306f\u4e16\u754c \u30ab\u30bf\u30ab\u30ca \uff76\uff9e \u304b\u3099",
    "\ud55c\uad6d\uc5b4 \u1112\u1161\u11ab \uac00\u11a8",
    "\u0645\u0631\u062d\u0628\u0627 \u0628\u0627\u0644\u0639\u0627\u0644\u0645 \u05e9\u05dc\u05d5\u05dd \u200f\u200eRTL",
    "\u0928\u092e\u0938\u094d\u0924\u0947 \u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35 \u0b95\u0bca",
    "\u041f\u0440\u0438\u0432\u0435\u0442, \u043c\u0438\u0440! \u0393\u03b5\u03b9\u03ac \u03c3\u03bf\u03c5 \u03c2",
    "\U0001f600 \U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466 \U0001f44d\U0001f3fd \U0001f1e9\U0001f1ea"
    " \u2764\ufe0f \U0001fae8 \U0001fae9",
    "\u00bd \u00b2 \u2460 \u2167 \u0663\u0664 \U0001d7d8 \u0969 1\u00b2 \u3007 \u096612",
    "\U00031350 \U0002ebf0 \U00010d50 \U00016d40 \U0001e4d0 \U0001ccf0 \u1c89",
    "\U0001d54f\U0001d4b6 \u24b6\u24d0 \uff21\uff10 \u2070 \u216b \u3392",
    "\x00\x01\x02\x1b\x7f\x80\x9f nul and controls \x00",
    "\ufffd \ufeff BOM \ufffe \U0010ffff \U000e0001 \ue000",
    "\u0149 \u01f0 \u0390 \ufb06 \u1e9e K \u212a",
    "a\u200db\u200cc \u00ad soft \u2060join",
]

SPECIAL = [
    "<|endoftext|>",
    "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n",
    "a<|endoftext|>b <|endoftext|> c<|endoftext|><|endoftext|>",
    "<s>[INST] hi [/INST] there </s><s>",
    "<s> x</s> y <unk> <s><s>",
    "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nYou are<|eot_id|>",
    "<|im_start <|im_end| |im_end|> <|IM_END|> < |im_end|>",
    "<tool_call>\n{\"name\": \"f\"}\n</tool_call>",
    "<0x0A> <0xE4><0xBD><0xA0> <0xFF> <0xZZ>",
]

CODE = [
    "def f(x):\n    return {k: v for k, v in x.items()}  # comment\n\n\nclass A:\n\tpass\n",
    "int main(){for(int i=0;i<10;++i){printf(\"%d\\n\",i);}}//x\n/* y */",
    "SELECT * FROM t WHERE a>=10 AND b!='x'; -- ok",
    "<div class=\"a\">&nbsp;&lt;</div>\n\n\n  <p>",
    "!!!??? ... --- === ***\n###\n$$$ @@@ ~~~~ ``` ^^ ((([[[{{{",
    "0123456789 00000 1 22 333 4444 55555 3.14159 1e10 0x1F",
]

LONG = [
    "a" * 300,
    "\u00e9" * 100,
    "\u4f60" * 100,
    "ab" * 150,
    " a" * 100,
    "-" * 200,
    "\U0001f468\u200d" * 40,
    "e" + "\u0301\u0316" * 50,
    "1" * 100,
]

NOT_UTF8 = [
    b"\xff",
    b"a\xffb\xfe\xfd c",
    b"\xe4\xbd",
    b"\xe4\xbdx \xf0\x9f\x98 \xf0\x9f",
    b"\xc0\x80 \xe0\x80\x80 \xed\xa0\x80 \xf4\x90\x80\x80 \xf8\x88\x80\x80\x80",
    b"\x80\x80\x80ok\xc3",
]

TEXTS = PLAIN + SPACES + UNICODE + SPECIAL + CODE + LONG + NOT_UTF8
