#include "frontend/sema.h"
void fe_check_model(struct fe *fe, struct ast *model)
{
	(void)fe;
	(void)model;
}
