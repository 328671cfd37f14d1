/*
 * The grammar of a spec, and only that: actions are one call (parse.c makes the nodes).
 * A mistake costs one statement: reading resumes at its ';', or at the '}' of its block.  A name on the left of a
 * broken statement stays bound (to AST_BAD), so that its uses are not reported as well.
 */
%code requires {
#include "frontend/parser.h"
typedef void *yyscan_t;
}
%code provides {          /* the names that flex's bison-bridge asks for */
#define YYSTYPE FE_YYSTYPE
#define YYLTYPE FE_YYLTYPE
}
%code {
#include "frontend/spec.lex.h"
#include <string.h>
#define YYLLOC_DEFAULT(cur, rhs, n) \
	((cur) = (n) ? (struct span){YYRHSLOC(rhs, 1).begin, YYRHSLOC(rhs, n).end} \
	             : (struct span){YYRHSLOC(rhs, 0).end, YYRHSLOC(rhs, 0).end})
#define YYMALLOC(n)   arena_alloc(p->arena, (n))
#define YYFREE(p)     ((void)(p))
#define YYINITDEPTH   200
#define YYMAXDEPTH    FE_MAX_STACK
#define MAKE(kind, at, name) fe_make(p, AST_##kind, at, name)
#define NONE          ((struct fe_name){NULL, {0, 0}})
static void fe_yyerror(struct span *at, struct fe_parser *p, yyscan_t sc, const char *msg);
static struct ast_list one(struct ast *n);
static struct ast *damaged(struct fe_parser *p, struct ast *n);
static struct ast_list lost(struct fe_parser *p);
}
%define api.pure full
%define api.prefix {fe_yy}
%define api.location.type {struct span}
%define parse.error custom
%define lr.type canonical-lr
%define lr.default-reduction accepting
%locations
%expect 0
%parse-param {struct fe_parser *p} {yyscan_t sc}
%lex-param   {yyscan_t sc}

%union {
	struct fe_name name;
	int64_t i;
	double real;
	struct ast *node;
	struct ast_list list;
	enum ast_op op;
}
%token END 0 "end of file"
%token <name> NAME "a name" ALLOW "'allow'" ASSERT "'assert'" CONST "'const'" COST "'cost'" DETERMINISTIC "'deterministic'"
%token <name> FN "'fn'" IN "'in'" INOUT "'inout'" INPUT "'input'" KERNEL "'kernel'" MODEL "'model'" OPAQUE "'opaque'"
%token <name> OUT "'out'" OUTPUT "'output'" REPEAT "'repeat'" RETURN "'return'" STATE "'state'" WEIGHT "'weight'" WHEN "'when'"
%token <i> INT "a number"
%token <real> REAL "a real number"
%token ARROW "'->'" DOTS "'..'" EQ "'=='" NE "'!='" LE "'<='" GE "'>='" AND "'&&'" OR "'||'"

%left OR
%left AND
%nonassoc EQ NE '<' '>' LE GE
%left '+' '-'
%left '*' '/' '%'
%precedence PREFIX

%type <name> name
%type <node> const_item param fnparam type attr stmt mstmt expr arg call index target opaque decl
%type <list> decls const_items params params1 outs fnparams fnparams1 dims dims1 attrs block stmts mblock mstmts args args1 targets
%type <i> decl_kind
%%
file: decls                             { p->decls = $1; }
    ;
decls: %empty                           { $$ = (struct ast_list){0}; }
    | decls decl                        { $$ = ast_append($1, damaged(p, $2)); }
    | decls CONST const_items ';'       { $$ = $1; for (struct ast *c = $3.head, *n; c; c = n) { n = c->next; c->next = NULL; $$ = ast_append($$, c); } }
    | decls error ';'                   { $$ = $1; lost(p); yyerrok; }
    | decls error '}'                   { $$ = $1; lost(p); yyerrok; }
    ;
decl: ASSERT expr ';'                   { $$ = MAKE(ASSERT, @$, NONE); $$->value = $2; }
    | KERNEL name '(' params ')' outs block { $$ = MAKE(KERNEL, @1, $2); $$->kids = $4.head; $$->outs = $6.head; $$->body = $7.head; }
    | KERNEL error block                { $$ = NULL; p->damaged = p->lost_name = false; p->lost_kernel = true; }
    | FN name '(' fnparams ')' block    { $$ = MAKE(FN, @1, $2); $$->kids = $4.head; $$->body = $6.head; }
    | FN name '(' fnparams ')' '=' expr ';' { $$ = MAKE(FN, @1, $2); $$->kids = $4.head; $$->body = MAKE(RETURN, @7, NONE); $$->body->value = $7; }
    | FN error block                    { $$ = NULL; lost(p); }
    | FN error ';'                      { $$ = NULL; lost(p); yyerrok; }
    | MODEL name mblock                 { $$ = MAKE(MODEL, @1, $2); $$->body = $3.head; }
    | MODEL error mblock                { $$ = NULL; p->damaged = p->lost_name = false; p->lost_kernel = true; }
    ;
const_items: const_item                 { $$ = one($1); }
    | const_items ',' const_item        { $$ = ast_append($1, $3); }
    ;
const_item: name '=' expr               { $$ = MAKE(CONST, @$, $1); $$->value = $3; }
    ;

params: %empty                          { $$ = (struct ast_list){0}; }
    | params1
    ;
params1: param                          { $$ = one($1); }
    | params1 ',' param                 { $$ = ast_append($1, $3); }
    ;
param: name ':' type attrs              { $$ = MAKE(PARAM, @$, $1); $$->type = $3; $$->attrs = $4.head; }
    | INOUT name ':' type attrs         { $$ = MAKE(PARAM, @$, $2); $$->type = $4; $$->attrs = $5.head; $$->flag = true; }
    ;
outs: %empty                            { $$ = (struct ast_list){0}; }
    | ARROW params1                     { $$ = $2; }
    | ARROW '(' params1 ')'             { $$ = $3; }
    ;
type: NAME '[' dims ']'                 { $$ = MAKE(TYPE, @$, $1); $$->kids = $3.head; }
    ;
dims: %empty                            { $$ = (struct ast_list){0}; }
    | dims1
    ;
dims1: expr                             { $$ = one($1); }
    | dims1 ',' expr                    { $$ = ast_append($1, $3); }
    ;
attrs: %empty                           { $$ = (struct ast_list){0}; }
    | attrs attr                        { $$ = ast_append($1, $2); }
    ;
attr: NAME                              { $$ = MAKE(ATTR, @$, $1); }
    | NAME '=' expr                     { $$ = MAKE(ATTR, @$, $1); $$->value = $3; }
    | WHEN expr                         { $$ = MAKE(ATTR, @$, $1); $$->value = $2; }
    ;
fnparams: %empty                        { $$ = (struct ast_list){0}; }
    | fnparams1
    ;
fnparams1: fnparam                      { $$ = one($1); }
    | fnparams1 ',' fnparam             { $$ = ast_append($1, $3); }
    ;
fnparam: name                           { $$ = MAKE(FNPARAM, @$, $1); }
    | name '=' expr                     { $$ = MAKE(FNPARAM, @$, $1); $$->value = $3; }
    ;

block: '{' stmts '}'                    { $$ = $2; }
    | '{' stmts error '}'               { $$ = $2; fe_lost_name(p); yyerrok; }
    ;
stmts: %empty                           { $$ = (struct ast_list){0}; }
    | stmts stmt                        { $$ = ast_append($1, $2); }
    ;
stmt: name '=' expr ';'                 { $$ = MAKE(BIND, @$, $1); $$->value = $3; }
    | name ':' NAME '=' expr ';'        { $$ = MAKE(BIND, @$, $1); $$->type = MAKE(TYPE, @3, $3); $$->type->flag = true; $$->value = $5; }
    | name '=' error ';'                { $$ = MAKE(BIND, @$, $1); $$->value = fe_bad(p, @3); yyerrok; }
    | name ':' error ';'                { $$ = MAKE(BIND, @$, $1); $$->value = fe_bad(p, @3); yyerrok; }
    | OUT name '=' expr ';'             { $$ = MAKE(OUT, @$, $2); $$->value = $4; }
    | OUT name '=' error ';'            { $$ = MAKE(OUT, @$, $2); $$->value = fe_bad(p, @4); yyerrok; }
    | RETURN expr ';'                   { $$ = MAKE(RETURN, @$, NONE); $$->value = $2; }
    | RETURN error ';'                  { $$ = MAKE(RETURN, @$, NONE); $$->value = fe_bad(p, @2); yyerrok; }
    | ASSERT expr ';'                   { $$ = MAKE(ASSERT, @$, NONE); $$->value = $2; }
    | DETERMINISTIC ';'                 { $$ = MAKE(OPTION, @$, $1); }
    | ALLOW NAME ';'                    { $$ = MAKE(OPTION, @$, $2); $$->flag = true; }
    | error ';'                         { $$ = NULL; fe_lost_name(p); yyerrok; }
    ;

mblock: '{' mstmts '}'                  { $$ = $2; }
    | '{' mstmts error '}'              { $$ = $2; fe_lost_name(p); yyerrok; }
    ;
mstmts: %empty                          { $$ = (struct ast_list){0}; }
    | mstmts mstmt                      { $$ = ast_append($1, $2); }
    ;
mstmt: decl_kind name index ':' type attrs ';' { $$ = MAKE(DECL, @$, $2); $$->op = (uint8_t)$1; $$->value = $3; $$->type = $5; $$->attrs = $6.head; }
    | decl_kind name error ';'          { $$ = MAKE(DECL, @$, $2); $$->op = (uint8_t)$1; $$->damaged = p->damaged = true; yyerrok; }
    | targets '=' expr ';'              { $$ = MAKE(BIND, @$, NONE); $$->kids = $1.head; $$->value = $3; }
    | targets '=' opaque ';'            { $$ = MAKE(BIND, @$, NONE); $$->kids = $1.head; $$->value = $3; }
    | targets '=' error ';'             { $$ = MAKE(BIND, @$, NONE); $$->kids = $1.head; $$->value = fe_bad(p, @3); yyerrok; }
    | NAME '(' args ')' ';'             { $$ = MAKE(BIND, @$, NONE); $$->value = fe_call(p, @$, $1, $3.head); }
    | REPEAT name IN expr DOTS expr mblock { $$ = MAKE(REPEAT, @1, $2); $$->kids = fe_arg(p, @4, NONE, $4); $$->kids->next = fe_arg(p, @6, NONE, $6); $$->body = $7.head; }
    | REPEAT error mblock               { $$ = NULL; fe_lost_name(p); }
    | OUTPUT expr ';'                   { $$ = MAKE(OUTPUT, @$, NONE); $$->value = $2; }
    | ASSERT expr ';'                   { $$ = MAKE(ASSERT, @$, NONE); $$->value = $2; }
    | error ';'                         { $$ = NULL; fe_lost_name(p); yyerrok; }
    ;
decl_kind: INPUT                        { $$ = AST_INPUT; }
    | STATE                             { $$ = AST_STATE; }
    | WEIGHT                            { $$ = AST_WEIGHT; }
    ;
index: %empty                           { $$ = NULL; }
    | '[' expr ']'                      { $$ = $2; }
    ;
targets: target                         { $$ = one($1); }
    | '(' args1 ')'                     { $$ = $2; }
    ;
target: name                            { $$ = MAKE(TARGET, @$, $1); }
    ;
opaque: OPAQUE name '(' args ')' ARROW type attrs COST call
                                        { $$ = MAKE(OPAQUE, @$, $2); $$->kids = $4.head; $$->type = $7; $$->attrs = $8.head; $$->value = $10; }
    ;

expr: expr '+' expr                     { $$ = fe_binary(p, AST_ADD, @$, $1, $3); }
    | expr '-' expr                     { $$ = fe_binary(p, AST_SUB, @$, $1, $3); }
    | expr '*' expr                     { $$ = fe_binary(p, AST_MUL, @$, $1, $3); }
    | expr '/' expr                     { $$ = fe_binary(p, AST_DIV, @$, $1, $3); }
    | expr '%' expr                     { $$ = fe_binary(p, AST_REM, @$, $1, $3); }
    | expr EQ expr                      { $$ = fe_binary(p, AST_EQ, @$, $1, $3); }
    | expr NE expr                      { $$ = fe_binary(p, AST_NE, @$, $1, $3); }
    | expr '<' expr                     { $$ = fe_binary(p, AST_LT, @$, $1, $3); }
    | expr '>' expr                     { $$ = fe_binary(p, AST_GT, @$, $1, $3); }
    | expr LE expr                      { $$ = fe_binary(p, AST_LE, @$, $1, $3); }
    | expr GE expr                      { $$ = fe_binary(p, AST_GE, @$, $1, $3); }
    | expr AND expr                     { $$ = fe_binary(p, AST_AND, @$, $1, $3); }
    | expr OR expr                      { $$ = fe_binary(p, AST_OR, @$, $1, $3); }
    | '-' expr %prec PREFIX             { $$ = fe_unary(p, AST_NEG, @$, $2); }
    | '!' expr %prec PREFIX             { $$ = fe_unary(p, AST_NOT, @$, $2); }
    | '(' expr ')'                      { $$ = $2; if ($$->kind != AST_BAD) $$->at = @$; }
    | INT                               { $$ = MAKE(INT, @$, NONE); $$->i = $1; }
    | REAL                              { $$ = MAKE(REAL, @$, NONE); $$->r = $1; }
    | name                              { $$ = MAKE(NAME, @$, $1); }
    | name '[' expr ']'                 { $$ = MAKE(INDEX, @$, $1); $$->value = $3; $$->depth = (uint16_t)($3->depth + 1); }
    | call
    ;
call: name '(' args ')'                 { $$ = fe_call(p, @$, $1, $3.head); }
    ;
args: %empty                            { $$ = (struct ast_list){0}; }
    | args1
    ;
args1: arg                              { $$ = one($1); }
    | args1 ',' arg                     { $$ = ast_append($1, $3); }
    ;
arg: expr                               { $$ = fe_arg(p, @$, NONE, $1); }
    | name '=' expr                     { $$ = fe_arg(p, @$, $1, $3); }
    | OUT '=' expr                      { $$ = fe_arg(p, @$, $1, $3); }
    ;
name: NAME | COST | INPUT | OUTPUT | STATE | WEIGHT
    ;
%%
static struct ast_list one(struct ast *n)
{
	return ast_append((struct ast_list){0}, n);
}

/* Closes a declaration: what was lost in it is its own. */
static struct ast *damaged(struct fe_parser *p, struct ast *n)
{
	if (n) {
		n->damaged = p->damaged;
		n->lost_name = p->lost_name;
	}
	p->damaged = p->lost_name = false;
	return n;
}

static struct ast_list lost(struct fe_parser *p)
{
	p->damaged = p->lost_name = false;
	p->lost = true;
	return (struct ast_list){0};
}

/* Called by the parser itself only when its stack is full. */
static void fe_yyerror(struct span *at, struct fe_parser *p, yyscan_t sc, const char *msg)
{
	(void)sc;
	(void)msg;
	fe_too_deep(p, *at);
}

enum { MAX_EXPECTED = 6, MAX_TOKENS = 64 };

/* What is expected, in words: tokens of a class that has a name are not listed one by one. */
static const char *expected_text(const yypcontext_t *cx, struct fe_parser *p)
{
	static const char *const operators = "'<' '>' '+' '-' '*' '/' '%' '==' '!=' '<=' '>=' '&&' '||'";
	static const char *const soft = "'cost' 'input' 'output' 'state' 'weight'";
	static const char *const starts = "a number a real number '-' '!' '('";
	yysymbol_kind_t want[MAX_TOKENS];
	const char *list[MAX_TOKENS];
	int n = yypcontext_expected_tokens(cx, want, MAX_TOKENS), m = 0;
	bool value = false, name = false, operator = false;
	struct strbuf b;

	for (int i = 0; i < n; i++) {
		value |= want[i] == YYSYMBOL_INT;
		name |= want[i] == YYSYMBOL_NAME;
		operator |= want[i] == YYSYMBOL_OR;
	}
	if (value)
		list[m++] = "a value";
	for (int i = 0; i < n; i++) {
		const char *text = yysymbol_name(want[i]);

		if ((value && (want[i] == YYSYMBOL_NAME || strstr(starts, text))) || (name && strstr(soft, text)) ||
		    (operator && strstr(operators, text)))
			continue;
		list[m++] = text;
	}
	strbuf_init(&b, p->arena);
	for (int i = 0; m <= MAX_EXPECTED && i < m; i++)
		strbuf_printf(&b, "%s%s", i == 0 ? "; expected " : i == m - 1 ? " or " : ", ", list[i]);
	return b.s;
}

static int yyreport_syntax_error(const yypcontext_t *cx, struct fe_parser *p, yyscan_t sc)
{
	(void)sc;
	if (!p->stop)
		fe_syntax_error(p, *yypcontext_location(cx), expected_text(cx, p));
	return 0;
}
