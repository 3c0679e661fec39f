# Runs as a program of a module, and looks for the runner's secrets: claim codes, tokens of attempts, and tokens of
# people and agents. It looks in every process that it can see and in every file of the job. It reports what it finds,
# never a value.
set -u
c=cy
secret="$c[acj]_[A-Za-z0-9_-]{8}"
of() { sed -n "s/^$2:[[:space:]]*//p" "/proc/$1/status" 2>/dev/null; }
# The variables and the command line of a process.
shown() {
  for file in environ cmdline; do
    tr '\0' '\n' 2>/dev/null < "/proc/$1/$file" | grep -qE "$secret" && echo "probe: $2 shows a secret in its $file"
  done
}
# What the kernel lets no other process open if the process is protected.
openable() {
  for file in environ maps mem auxv; do
    ( : < "/proc/$1/$file" ) 2>/dev/null && echo "probe: $2 lets its $file be opened"
  done
  for link in cwd root exe; do
    readlink "/proc/$1/$link" >/dev/null && echo "probe: $2 shows its $link"
  done
  for fd in "/proc/$1/fd/"*; do
    readlink "$fd" >/dev/null && echo "probe: $2 shows its fd" && break
  done
  return 0
}
# A process with a secret proves that this script would find one.
CANARY="${c}j_a-canary-of-a-token" sleep 60 & canary=$!
until [ "$(of $canary Name)" = sleep ]; do :; done
shown $canary canary; openable $canary canary
kill $canary; wait $canary 2>/dev/null
printf '%s' "${c}c_a-canary-of-a-code" > "$HOME/canary"
# The runner started OpenTofu, which started this script. Canyon or an agent started the runner, or a process outside of
# the container.
tofu=$(of $$ PPid); runner=$(of "$tofu" PPid); starter=$(of "$runner" PPid)
echo "probe: the runner is $(of "$runner" Name), core dumps of $(sed -n 's/^Max core file size *\([^ ]*\).*/\1/p' /proc/$tofu/limits) bytes"
shown "$runner" runner; openable "$runner" runner
case "$(of "$starter" Name)" in
  canyon*) echo "probe: its starter is $(of "$starter" Name)"; shown "$starter" starter; openable "$starter" starter ;;
esac
if [ "$runner" = 1 ]; then
  for process in /proc/[0-9]*; do shown "${process#/proc/}" "process $(of "${process#/proc/}" Name)"; done
fi
# This process's own variables, and the files of the job.
env | grep -E "$secret" | sed 's/=.*//; s/^/probe: a secret is in the variable /'
for fd in /proc/self/fd/*; do readlink "$fd"; done | grep -E 'socket:|memfd:' | sed 's/^/probe: an open /'
# A descriptor that Canyon's own process inherited from its parent, in the tests that give it one.
( : <&9 ) 2>/dev/null && echo "probe: descriptor 9 is open"
if [ "$runner" = 1 ]; then temporary=/tmp; else temporary="$TMPDIR"; fi
grep -rlsE "$secret" "$HOME" "$PWD/.." "$temporary" 2>/dev/null | sort -u | sed 's/^/probe: a secret is in the file /'
rm "$HOME/canary"
echo "probe: done"
