import argparse, json, os, shutil, subprocess, sys, tempfile, time
from pathlib import Path
from clients import CLIENTS, SERVER, Session
from compare import compare, heard
from model import DONE, Model
HERE = Path(__file__).resolve().parent
ODD = 'quoted "text", back\\slash, <tag>&amp;, tab\there, naïve 漢字 🙂'
OLD="old"
SCRIPTS = {
 "claude": [[("read","Read",{"file_path":"notes.txt"}),("search","Grep",{"pattern":"naïve","output_mode":"content"})],
  [("edit","Edit",{"file_path":"notes.txt","old_string":"the old line","new_string":"the new line"})],
  [("command","Bash",{"command":"wc -l notes.txt > counted.txt && cat counted.txt","description":"Count lines"})],
  [("fault","Edit",{"file_path":"notes.txt","old_string":"no such line","new_string":"x"})],
  [("long","Read",{"file_path":"long.txt"})]],
 "asks": [[("read","Read",{"file_path":"notes.txt"})],[("edit","Edit",{"file_path":"notes.txt","old_string":"the old line","new_string":"the new line"})]],
 "ally": [[("read","read",{"file_paths":["notes.txt"]})],[("command","bash",{"command":"wc -l notes.txt > counted.txt && cat counted.txt"})],[("fault","edit",{"file_path":"notes.txt","edits":[{"old_string":"no such line","new_string":"x"}]})]],
 "workspace": [[("read","read_file",{"path":"notes.txt"})],[("command","run_code",{"language":"python","code":"print(6 * 7)"})],[("fault","read_file",{"path":"nothing.txt"})]],
}
def world(base):
    for f in ("home","work","haft-home/.config/haft"): (base/f).mkdir(parents=True)
    (base/"work/notes.txt").write_text(f"the old line\n{ODD}\nlast line\n")
    (base/"work/long.txt").write_text("".join(f"this is line {n} of a long file, and it goes on\n" for n in range(1,1501)))
    (base/"haft-home/.config/haft/config.toml").write_text('[permissions]\nallow = ["Bash(wc:*)", "run_code", "Bash"]\n')
def run(client, kind, cache, haft, keep=None):
    base=Path(tempfile.mkdtemp(prefix="haft-clients-")).resolve()
    world(base)
    script={"own":"asks"}.get(kind,kind)
    model=Model(SERVER, SCRIPTS[script])
    mode=[] if kind=="asks" or client.answers else ["--mode","accept-edits"]
    dialect={"asks":"claude","own":"claude"}.get(kind,kind)
    command=[sys.executable, str(HERE/"tee.py"), str(base/"wire.jsonl"), str(base/"haft-home"), haft, "mcp","--workspace",str(base/"work"),"--dialect",dialect,*mode]
    session=Session(base,cache,command,model.url,kind!="own",dialect,SCRIPTS[script])
    argv,env=client.start(session)
    start=time.monotonic()
    try:
        p=subprocess.run(argv,cwd=base/"work",env={"HOME":str(base/"home"),"PATH":f"{Path(session.node).parent}:/usr/local/bin:/usr/bin:/bin","NO_PROXY":"127.0.0.1,localhost","TERM":"dumb",**env},stdin=subprocess.DEVNULL,capture_output=True,text=True,timeout=120)
        out,err,code=p.stdout,p.stderr,p.returncode
    except subprocess.TimeoutExpired as e:
        out,err,code=(e.stdout or b"").decode(),(e.stderr or b"").decode(),"timeout"
    took=time.monotonic()-start
    model.close()
    h=heard(base/"wire.jsonl")
    print(f"== {client.name} {kind}: code {code}, {took:.1f} s, done {model.is_done}, protocol {h.protocol}, forms {h.forms}, {len(h.tools)} tools, asked {len(h.questions)} answers {h.answers} faults {model.faults}")
    names=[t.full for t in model.offers]
    print("  offered", len(names), [n for n in names if SERVER in n][:3], "missing", [t["name"] for t in h.tools if model.find(model.offers,t["name"]) is None])
    for turn in SCRIPTS[script]:
        for step,tool,input in turn:
            got=model.results.get(step)
            r=[c[2] for c in h.calls if c[0]==tool and c[1]==input]
            if not r: print("  ",step,"haft got no call:",(got or [""])[0][:300] if got is not None else None, len(h.calls)); continue
            v=compare(r[-1],got); print("  ",step,v.ok,v.how,v.note)
    if code!=0 or not model.is_done: print(out[-1500:],err[-3000:])
    (base/"requests.json").write_text(json.dumps(model.requests,indent=1))
    (base/"out").write_text(out+"\n----\n"+err)
    print("  kept", base)
if __name__=="__main__":
    names=sys.argv[3].split(","); kinds=sys.argv[4].split(",")
    for c in CLIENTS:
        if any(n.lower() in c.name.lower() for n in names):
            for k in kinds: run(c,k,Path(sys.argv[1]).resolve(),os.path.realpath(sys.argv[2]))
