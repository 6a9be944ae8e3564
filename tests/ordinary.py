"""Ordinary file names and commands: none of them may be refused, or shown as something odd.

``NAMES`` are paths that people use, one a line. ``LONG`` are as long as a name may be.
``COMMANDS`` are what a working day brings.
"""

NAMES = """
README.md
notes.txt
Makefile.am
.gitignore
.env.example
.editorconfig
.agent_state.md
.agent_states/x.txt
agent_state/x.txt
my.agent_state
docs/agent_state.md
src/main.py
src/lai/__main__.py
src/__init__.py
tests/test_x.py
a b c.txt
My Documents/Q3 report (final) v2.docx
it's fine.txt
say "hello".txt
rock & roll.txt
a;b.txt
100%.txt
50% off!.txt
a=b.txt
#hashtag.md
@home.txt
plus+minus-.txt
price_$5.txt
[draft] plan.md
{template}.html
a,b,c.csv
^caret.txt
./~backup.txt~
file~
v1.2.3-rc.1+build.5.tar.gz
archive.tar.gz
...
.hidden
..data
a..b
a...txt
trailing.dot.
-dash-first.txt
--help
-rf
_private.py
CON
con.txt
NUL.txt
aux.c
LPT1
Thumbs.db
12:30 meeting.txt
2024-06-01T12:00:00Z.log
http___example.com.html
back\\slash.txt
D:\\Daten\\me.txt
question?.txt
star*.txt
less<more>.txt
pipe|.txt
quote'“”‘’.txt
dash–en—em.txt
ellipsis….txt
copyright©®™.txt
½ cup.txt
x².txt
€5.txt
£ and ¥.txt
日本語.txt
こんにちは 世界.md
カタカナ/ひらがな.txt
ﾊﾝｶｸ.txt
東京都/渋谷区/住所録.csv
企画書（最終版）.docx
「重要」メモ.txt
中文文件.txt
账本.txt
读书笔记/第一章：开始.md
2024年度总结（修订）.xlsx
《红楼梦》摘抄.txt
你好，世界！.py
繁體中文 檔案.txt
汉字、标点。；？！.txt
𠮷野家.txt
㐀㐁.txt
한국어 파일.txt
각.txt
مرحبا.txt
تقرير ٢٠٢٤.md
فارسی/گزارش.txt
اردو.txt
עברית.txt
שלום עולם.md
русский файл.txt
Київ/їжак.txt
Ελληνικά.txt
ไทย.txt
ภาษาไทย/เอกสาร.md
हिन्दी.txt
বাংলা.txt
தமிழ்.txt
ქართული.txt
Հայերեն.txt
አማርኛ.txt
tiếng Việt.txt
Straße.txt
İstanbul ığüşöç.txt
Åse Øst Ærø.txt
naïve café.txt
ñandú.txt
łódź.txt
ﬁle ligature.txt
Ω ohm.txt
Ａ fullwidth.txt
🙂.txt
🚀 launch/plan 1.md
📁/📄.txt
👍🏽.txt
👩‍💻.py
👨‍👩‍👧‍👦 family.md
🏳️‍🌈.txt
🇨🇳🇯🇵.txt
❤️.md
1️⃣ first.txt
🧑🏿‍🚀.txt
café ☕️.txt
✅ done/⬜ todo.md
🧾 收据 №5.txt
♥♦♣♠.txt
→ next.txt
∑ f(x) ≤ ∞.txt
a/b/c/d/e/f/g/h/i/j.txt
./start.txt
a//b.txt
a/./c.txt
x y/z w/q.txt
.config/app/settings.json
.local/share/x.db
node_modules/.bin/tool
data/2024/06/01.parquet
img/photo (1).jpg
img/IMG_0001.JPEG
Untitled.ipynb
.ipynb_checkpoints/a-checkpoint.ipynb
LICENSE
CHANGELOG
script.sh
run.py
a.b.c.d.e.f
0
1.txt
nil
undefined.js
yes.txt
None.py
%s%d%n.txt
%2e%2e.txt
${HOME}.txt
$(date).txt
`x`.txt
&amp;.html
<b>.html
a\\tb.literal
""".strip("\n").split("\n")

ACCENTS = ["cafe\u0301.txt", "u\u0308ber/nai\u0308ve.txt", "\u1112\u1161\u11ab.txt", "か\u3099.txt"]
LONG = ["n" * 255, "字" * 85, "🙂" * 63, "é" * 127, "a" * 251 + ".txt", "d" * 200 + "/" + "f" * 200]
NAMES += ACCENTS  # letters that are put together from parts

COMMANDS = """
ls -la
pwd
git status
git log --oneline -n 20
git diff HEAD~1 -- src/
git add -A && git commit -m "修复：账本第七行"
git commit -m 'Fix: don'\\''t lose the last line'
git checkout -b feature/新功能
git push origin main
git stash pop
git rebase -i HEAD~3
git clone https://example.com/a/b.git
git config user.email a@example.com
git log --format='%h %an %s' | head -5
pip install -r requirements.txt
pip install 'requests>=2,<3'
python -m venv .venv && . .venv/bin/activate
python -m pytest -q tests/test_x.py::test_书
python3 -c 'print("你好, мир, مرحبا 🙂")'
python3 script.py --name "O'Brien" --out=结果.json
uv run pytest -x
npm install && npm test
npm run build -- --watch=false
cargo test --all
go test ./...
make -j4 all
cmake -S . -B build
docker compose up -d
docker run --rm -v "$PWD":/w alpine ls /w
kubectl get pods -A -o wide
curl -fsSL https://example.com/data.json -o data.json
curl -s 'https://example.com/?q=1&p=2' | jq '.items[] | .name'
wget -q https://example.com/文件.zip
ssh host 'uptime'
scp a.txt host:/tmp/
rsync -avz src/ dst/
tar czf backup.tar.gz src/
unzip -o a.zip -d out
sed -i 's/foo/bar/g' *.txt
sed -n '10,20p' 文件.txt
sed -e 's|/usr|/opt|' -e '/^#/d' conf
awk -F, '{sum += $3} END {print sum}' data.csv
awk 'NR > 1 { print $1 "\\t" $2 }' a.tsv
find . -name '*.py' -not -path './.venv/*'
find . -type f -size +10M -exec ls -lh {} \\;
find . -name '*.pyc' -delete
grep -rn "TODO" --include='*.py' .
grep -E '^(a|b)+$' 名单.txt | sort | uniq -c | sort -rn | head
rg -n 'def \\w+' src
cat a.txt | tr 'a-z' 'A-Z' > b.txt
head -n 5 *.csv; tail -n 5 *.csv
wc -l $(git ls-files)
xargs -0 -n1 echo < list
for f in *.txt; do echo "$f"; done
while read -r line; do echo "行: $line"; done < 名单.txt
if [ -f a.txt ]; then echo yes; else echo no; fi
[[ "$x" =~ ^[0-9]+$ ]] && echo number
echo "$((1 + 2 * 3))"
echo ${PATH//:/ }
echo "${name:-默认}"
export LANG=zh_CN.UTF-8; date
mkdir -p "新 文件夹/子 文件夹"
mv '旧 名.txt' '新 名.txt'
cp -r a b
rm -f *.tmp
ln -s target link
chmod +x run.sh
touch '👩‍💻 笔记.md'
echo '❤️ 👍🏽 🏳️‍🌈' >> emoji.txt
printf '%s\\n' α β γ
diff -u a.txt b.txt
patch -p1 < fix.patch
sort -t, -k2,2n data.csv -o sorted.csv
cut -d: -f1 /etc/passwd
paste -sd+ nums | bc
date -d '2024-06-01' +%s
du -sh * | sort -h
df -h
ps aux | grep python
time sleep 1
timeout 10 ./run.sh
env FOO=bar ./run.sh
sqlite3 a.db 'SELECT count(*) FROM t;'
psql -c "SELECT '书'"
ffmpeg -i in.mp4 -vf scale=640:-1 out.mp4
convert a.png -resize 50% b.png
pandoc README.md -o README.pdf
latexmk -pdf 论文.tex
ruff check --fix . && ruff format .
mypy src
black --check .
jupyter nbconvert --to html 笔记.ipynb
echo 'a b   c'
true
: 什么也不做
cat <<'EOF'
echo "日本語 한국어 العربية ไทย हिन्दी"
test -n "$(git status --porcelain)" || echo clean
openssl sha256 a.txt
base64 -d <<< aGk= | xxd
ls 2>/dev/null || true
(cd sub && make)
{ date; uptime; } > log.txt
""".strip("\n").split("\n")
SCRIPTS = [
    'set -euo pipefail\ncd src\nfor f in *.py; do\n\tpython -m py_compile "$f"\ndone\necho 完成',
    "cat > 配置.yaml <<'EOF'\nname: 书\nlist:\n  - a\n  - b\nEOF\ncat 配置.yaml",
    "python3 - <<'EOF'\nimport json\nprint(json.dumps({'书': 1}, ensure_ascii=False))\nEOF",
    "# 第一步\nmake clean\n\n# 第二步\nmake all \\\n  CC=gcc \\\n  -j4",
]
COMMANDS += SCRIPTS
